// Starts processes of a job as forks of the test, each with its own environment, and collects what they say.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/rendezvous/join/job.h"
#include "engine/rendezvous/net/socket.h"

namespace busbw::testing {

using namespace std::chrono_literals;

// A forked process: what its function returned, or the sentence of the Error that it threw, comes back as text.
class Child {
 public:
  explicit Child(const std::function<std::string()>& work) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      std::string text;
      try {
        text = work();
      } catch (const std::exception& error) {
        text = std::string("threw: ") + error.what();
      }
      [[maybe_unused]] const auto written = write(ends[1], text.data(), text.size());
      _exit(0);
    }
    close(ends[1]);
    out_ = FileDescriptor(ends[0]);
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)), out_(std::move(other.out_)) {}

  pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }

  // What it said, once it has ended; "" when it was killed; "hangs" when it has not ended in time.
  std::string said(std::chrono::milliseconds limit = 40s) {
    std::string text;
    char buffer[4096];
    const auto deadline = Clock::now() + limit;
    for (;;) {
      if (!wait_ready(out_, POLLIN, deadline)) return "hangs";
      const ssize_t count = read(out_.get(), buffer, sizeof buffer);
      if (count <= 0) break;
      text.append(buffer, static_cast<std::size_t>(count));
    }
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    return text;
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor out_;
};

// A job of our own launcher on a free port of this machine.
struct TestJob {
  explicit TestJob(int processes, std::string secret = "a secret of the test")
      : processes(processes), secret(std::move(secret)), listener(*listen_at("127.0.0.1", 0, "")) {}

  Environment environment(int process) const {
    Environment variables{{"BUSBW_RANK", std::to_string(process)},
                          {"BUSBW_WORLD_SIZE", std::to_string(processes)},
                          {"BUSBW_LOCAL_RANK", std::to_string(process)},
                          {"BUSBW_LOCAL_SIZE", std::to_string(processes)},
                          {"BUSBW_ADDRESS", "127.0.0.1:" + std::to_string(listener.port)},
                          {"BUSBW_JOIN_TIMEOUT", "20"},
                          {"BUSBW_SECRET", secret}};
    if (process == 0) variables["BUSBW_LISTEN_FD"] = std::to_string(listener.socket.get());
    return variables;
  }

  Child start(int process, const std::function<std::string(Rendezvous&)>& work) const {
    return start(environment(process), work);
  }
  static Child start(const Environment& variables, const std::function<std::string(Rendezvous&)>& work) {
    return Child([&] {
      const auto rendezvous = join_job(variables);
      return work(*rendezvous);
    });
  }
  std::vector<Child> start_all(const std::function<std::string(Rendezvous&)>& work) {
    std::vector<Child> children;
    for (int process = 0; process < processes; ++process) children.push_back(start(process, work));
    listener.socket.close();  // it now belongs to process 0 alone
    return children;
  }

  int processes;
  std::string secret;
  Listener listener;
};

// Counts processes that got somewhere; forks made after it share it.
class Arrivals {
 public:
  Arrivals() {
    void* const page =
        mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::runtime_error("no shared page");
    count_ = new (page) std::atomic<int>(0);
  }
  ~Arrivals() { munmap(count_, sizeof *count_); }
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  void arrive() { ++*count_; }
  // Whether that many came, however busy the machine is.
  bool all(int processes, std::chrono::milliseconds limit = 60s) const {
    const auto deadline = Clock::now() + limit;
    while (*count_ < processes && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
    return *count_ >= processes;
  }

 private:
  std::atomic<int>* count_;
};

// Waits until a peer has failed, and returns the sentence.
inline std::string wait_for_failure(const Rendezvous& rendezvous, std::chrono::milliseconds limit = 10s) {
  const auto deadline = Clock::now() + limit;
  while (rendezvous.failure() == nullptr && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
  return rendezvous.failure() ? rendezvous.failure()->sentence : "no failure noticed";
}

}  // namespace busbw::testing
