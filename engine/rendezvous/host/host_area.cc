// Maps the shared memory of one host and runs the barrier in it.
#include "engine/rendezvous/host/host_area.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/sha256.h"
#include "engine/rendezvous/host/spin.h"
#include "engine/rendezvous/net/socket.h"

namespace busbw {
namespace {

constexpr std::size_t line_bytes = 128;  // two cache lines: neighbours are prefetched in pairs on x86
constexpr std::size_t nonce_offset = 0;  // in the first, otherwise unused, line
constexpr std::size_t nonce_size = 32;
constexpr std::string_view descriptor_folder = "/proc/";

[[noreturn]] void area_failed(const char* what, const std::string& name) {
  throw Error(ExitCode::internal,
              format("The shared memory %s could not be %s: %s", name.c_str(), what, std::strerror(errno)));
}

// Of the machine: each process may be bound to a core of its own, so this one's mask says nothing about the others.
long cores() { return sysconf(_SC_NPROCESSORS_ONLN); }

}  // namespace

std::size_t HostArea::bytes(int local_processes, int processes) {
  const std::size_t lines = 2 + static_cast<std::size_t>(local_processes);
  return lines * line_bytes + 2 * static_cast<std::size_t>(processes) * sizeof(double);
}

HostArea::HostArea(int descriptor, int local_processes, int processes)
    : local_processes_(local_processes), processes_(processes) {
  const int flags = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = mmap(nullptr, bytes(local_processes, processes), PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (memory == MAP_FAILED) area_failed("mapped", "of the rendezvous");
  memory_ = memory;
}

HostArea::HostArea(int local_processes, int processes) : HostArea(-1, local_processes, processes) {}

HostArea HostArea::create(Kind kind, int local_processes, int processes, std::string& name, const std::string& nonce) {
  const auto fill = [&](const FileDescriptor& file) {
    // posix_fallocate, unlike ftruncate, says so now when memory is short, instead of SIGBUS later.
    if (errno = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes(local_processes, processes))); errno != 0) {
      area_failed("sized", name);
    }
    HostArea area(file.get(), local_processes, processes);
    std::memcpy(static_cast<char*>(area.memory_) + nonce_offset, sha256(nonce).data(), nonce_size);
    return area;
  };
  if (kind == Kind::unnamed) {
    FileDescriptor file(memfd_create("busbw-rendezvous", MFD_CLOEXEC));
    name = std::string(descriptor_folder) + std::to_string(getpid()) + "/fd/" + std::to_string(file.get());
    if (!file.open()) area_failed("created", name);
    HostArea area = fill(file);
    area.door_ = std::move(file);
    return area;
  }
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    name = std::string(folder) + "/busbw-" + std::to_string(getuid()) + "-" + hex(sha256(nonce)).substr(0, 24);
    const FileDescriptor file(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.open()) continue;
    try {
      return fill(file);
    } catch (const Error&) {
      remove_name(name);
    }
  }
  area_failed("created", name);
}

HostArea HostArea::open(int local_processes, int processes, const std::string& name, const std::string& nonce) {
  // What stands in /proc/PID/fd is a link by nature; size, owner and nonce say whether it is ours. O_NONBLOCK: it may
  // be a FIFO of a stranger.
  const int no_link = name.starts_with(descriptor_folder) ? 0 : O_NOFOLLOW;
  const FileDescriptor file(::open(name.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | no_link));
  struct stat status{};
  if (!file.open() || fstat(file.get(), &status) != 0) area_failed("opened", name);
  if (status.st_uid != getuid() || !S_ISREG(status.st_mode) ||
      static_cast<std::size_t>(status.st_size) != bytes(local_processes, processes)) {
    throw Error(ExitCode::internal, "The shared memory " + name + " is not of this job");
  }
  HostArea area(file.get(), local_processes, processes);
  if (std::memcmp(static_cast<char*>(area.memory_) + nonce_offset, sha256(nonce).data(), nonce_size) != 0) {
    throw Error(ExitCode::internal, "The shared memory " + name + " is not of this job");
  }
  return area;
}

void HostArea::remove_name(const std::string& name) {
  if (!name.empty() && !name.starts_with(descriptor_folder)) unlink(name.c_str());
}

HostArea::HostArea(HostArea&& other) noexcept
    : local_processes_(other.local_processes_),
      processes_(other.processes_),
      memory_(std::exchange(other.memory_, nullptr)),
      door_(std::move(other.door_)) {}

HostArea& HostArea::operator=(HostArea&& other) noexcept {
  std::swap(local_processes_, other.local_processes_);
  std::swap(processes_, other.processes_);
  std::swap(memory_, other.memory_);
  std::swap(door_, other.door_);
  return *this;
}

HostArea::~HostArea() {
  if (memory_ != nullptr) munmap(memory_, bytes(local_processes_, processes_));
}

// Fresh memory is zero, which is the first epoch of every atomic here.
std::atomic<std::uint64_t>& HostArea::line(int index) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<double>::is_always_lock_free);
  return *std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(static_cast<char*>(memory_) +
                                                                     line_bytes * static_cast<std::size_t>(1 + index)));
}

std::atomic<double>* HostArea::numbers(std::uint64_t epoch) {
  const std::size_t lines = 2 + static_cast<std::size_t>(local_processes_);
  auto* first = std::launder(reinterpret_cast<std::atomic<double>*>(static_cast<char*>(memory_) + lines * line_bytes));
  return first + (epoch % 2) * static_cast<std::size_t>(processes_);
}

HostBarrier::HostBarrier(HostArea area, int local, int local_processes)
    : area_(std::move(area)), local_(local), local_processes_(local_processes), crowded_(local_processes > cores()) {}

void HostBarrier::meet(const std::function<void()>& across_hosts, const std::function<void()>& poll) {
  const std::uint64_t epoch = ++epoch_;
  if (local_ != 0) {
    area_.arrived(local_).store(epoch, std::memory_order_release);
    spin_until([&] { return area_.released().load(std::memory_order_acquire) >= epoch; }, poll, crowded_);
    return;
  }
  for (int other = 1; other < local_processes_; ++other) {
    spin_until([&] { return area_.arrived(other).load(std::memory_order_acquire) >= epoch; }, poll, crowded_);
  }
  if (across_hosts) across_hosts();
  area_.released().store(epoch, std::memory_order_release);
}

}  // namespace busbw
