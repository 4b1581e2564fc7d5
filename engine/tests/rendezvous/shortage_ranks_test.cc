// A process of the job that can open no further descriptor: it says so, and the others hear it, long before the limit
// of the wait for them.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <set>

#include "engine/tests/rendezvous/ranks.h"

// The sanitizer for undefined behaviour looks at an object of a class through a pipe of its own the first time that it
// meets it, and takes the object for a wrong one where it gets none.
#if !defined(__SANITIZE_ADDRESS__)

namespace busbw {
namespace {

using namespace std::chrono_literals;
using testing::Arrivals;
using testing::Child;
using testing::TestJob;

constexpr int processes = 6;
constexpr int least_left = 4;  // descriptors: with fewer there is no meeting place that could tell
constexpr int most_left = 16;  // with so many the job starts

// All numbers below the limit are in use, but for so many.
void leave_descriptors(int left) {
  const auto is_open = [](int number) { return fcntl(number, F_GETFD) >= 0; };
  int limit = 0;
  for (int free = 0; free < left || is_open(limit); ++limit) free += is_open(limit) ? 0 : 1;
  const rlimit most{.rlim_cur = static_cast<rlim_t>(limit), .rlim_max = static_cast<rlim_t>(limit)};
  if (setrlimit(RLIMIT_NOFILE, &most) != 0) throw std::runtime_error("no limit");
}

// Until so many callers stand at the door. Whom a busy machine lets come after process 0 has given up and ended, nobody
// is there to tell.
void wait_for_callers(const FileDescriptor& listener, unsigned count) {
  tcp_info info{};
  const auto deadline = Clock::now() + 30s;
  for (socklen_t size = sizeof info; info.tcpi_unacked < count && Clock::now() < deadline; size = sizeof info) {
    if (getsockopt(listener.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) throw std::runtime_error("no count");
    std::this_thread::sleep_for(1ms);
  }
}

// What all said, where one of them had so many descriptors left; "hangs" where one took longer than 5 s from when all
// others stood at the door of process 0.
std::set<std::string> said_with(int short_process, int left) {
  TestJob job(processes);
  Arrivals begun;
  std::vector<Child> children;
  for (int process = 0; process < processes; ++process) {
    children.emplace_back([&, process] {
      if (process == 0) wait_for_callers(job.listener.socket, processes - 1);
      if (process == 0) begun.arrive();
      if (process == short_process) leave_descriptors(left);
      const auto rendezvous = join_job(job.environment(process));
      rendezvous->barrier();
      rendezvous->leave();
      return std::string("met");
    });
  }
  job.listener.socket.close();
  std::set<std::string> said;
  if (!begun.all(1)) return {"hangs"};
  const auto deadline = Clock::now() + 5s;
  for (Child& child : children)
    said.insert(child.said(std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now())));
  return said;
}

bool tells(const std::string& text) {
  return text.find("Too many open files") != std::string::npos && text.find("ulimit -n") != std::string::npos;
}

TEST(Shortage, OfProcessZeroIsToldToAllWhoComeWithinSeconds) {
  int told = 0, met = 0;
  for (int left = least_left; left <= most_left; ++left) {
    const auto said = said_with(0, left);
    EXPECT_FALSE(said.contains("hangs")) << left << " descriptors were left";
    if (said == std::set<std::string>{"met"}) {
      ++met;
      continue;
    }
    for (const std::string& text : said) EXPECT_TRUE(tells(text)) << left << " were left: " << text;
    ++told;
  }
  EXPECT_GE(told, processes - 1) << "one for each that has no place";
  EXPECT_GE(met, 2);
}

// What tells the host is read from a file: a process that could not read it would be on a host of its own.
TEST(Shortage, MakesNoTwoHostsOfOne) {
  for (int left = least_left; left <= most_left; ++left) {
    TestJob job(processes);
    std::vector<Child> children;
    for (int process = 0; process < processes; ++process) {
      children.emplace_back([&, process] {
        Environment variables = job.environment(process);
        variables.erase("BUSBW_LOCAL_RANK");
        variables.erase("BUSBW_LOCAL_SIZE");
        if (process == 0) leave_descriptors(left);
        const auto rendezvous = join_job(variables);
        return format("one of %d here", rendezvous->placement().local_processes);
      });
    }
    job.listener.socket.close();
    for (Child& child : children) {
      const std::string text = child.said(20s);
      EXPECT_TRUE(text == format("one of %d here", processes) || text.starts_with("threw: ")) << left << ": " << text;
    }
  }
}

TEST(Shortage, OfAnotherProcessIsItsOwnSentence) {
  TestJob job(2);
  const Child zero = job.start(0, [](Rendezvous&) { return std::string("met"); });
  Child one([&] {
    leave_descriptors(0);
    return std::string(join_job(job.environment(1)) ? "met" : "");
  });
  const std::string text = one.said(5s);
  EXPECT_TRUE(tells(text)) << text;
}

TEST(Shortage, OfADoorIsSaidToo) {
  Environment variables{{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"BUSBW_JOIN_TIMEOUT", "20"},        {"PMIX_NAMESPACE", "a job of this test"}};
  Child one([&] {
    leave_descriptors(0);
    return std::string(join_job(variables) ? "met" : "");
  });
  const std::string text = one.said(5s);
  EXPECT_TRUE(tells(text)) << text;
}

// Slow callers hold the last descriptors, and those of the job still come.
TEST(Shortage, ByStrangersMakesRoomForThoseOfTheJob) {
  TestJob job(2);
  std::vector<FileDescriptor> strangers;
  std::string why;
  const Endpoint there{"127.0.0.1", job.listener.port};
  for (int count = 0; count < 40; ++count)
    strangers.push_back(connect_to(resolve(there).front(), Clock::now() + 1s, why));
  std::vector<Child> children;
  for (int process = 0; process < 2; ++process) {
    children.emplace_back([&, process] {
      strangers.clear();
      if (process == 0) leave_descriptors(12);
      const auto rendezvous = join_job(job.environment(process));
      rendezvous->barrier();
      rendezvous->leave();
      return std::string("met");
    });
  }
  job.listener.socket.close();
  for (Child& child : children) EXPECT_EQ(child.said(30s), "met");
}

}  // namespace
}  // namespace busbw

#endif
