#include "library/record/cut_off.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "library/record/layout.h"

namespace busbw::record {

namespace {

std::atomic<std::uintptr_t> begin{0};
std::size_t length = 0;
// What of the header is never changed, and every call of the ring as one that has memory.
alignas(64) unsigned char constant[sizeof(Header)];
std::atomic<bool> cut_off{false};

// Only what a handler of signals may call.
bool replace() {
  void* own = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (own == MAP_FAILED) return false;
  std::memcpy(own, constant, sizeof constant);
  cut_off.store(true, std::memory_order_release);
  // At once for all threads.
  auto* there = reinterpret_cast<void*>(begin.load(std::memory_order_relaxed));
  return ::mremap(own, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, there) != MAP_FAILED;
}

void on_bus_error(int number, siginfo_t* what, void*) {
  const auto at = reinterpret_cast<std::uintptr_t>(what->si_addr);
  const std::uintptr_t first = begin.load(std::memory_order_acquire);
  const int error = errno;
  const bool is_ours = what->si_code > 0 && first != 0 && at >= first && at - first < length;
  const bool goes_on = is_ours && replace();
  errno = error;
  if (goes_on) return;
  // As if nobody had handled it: the instruction fails again, or the signal comes again.
  ::signal(number, SIG_DFL);
  if (what->si_code <= 0) ::raise(number);
}

}  // namespace

void outlive_truncation(Header* header, std::size_t bytes) {
  begin.store(0, std::memory_order_release);
  cut_off.store(false, std::memory_order_relaxed);
  length = bytes;
  std::memcpy(constant, static_cast<const void*>(header), sizeof constant);
  Header copy{};
  std::memcpy(static_cast<void*>(&copy), constant, sizeof constant);
  copy.backed.store(copy.call_capacity, std::memory_order_relaxed);
  std::memcpy(constant, static_cast<const void*>(&copy), sizeof constant);
  struct sigaction now{};
  if (::sigaction(SIGBUS, nullptr, &now) != 0) return;
  if ((now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) {
    struct sigaction ours{};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&ours.sa_mask);
    if (::sigaction(SIGBUS, &ours, nullptr) != 0) return;
  }
  begin.store(reinterpret_cast<std::uintptr_t>(header), std::memory_order_release);
}

bool was_cut_off() { return cut_off.load(std::memory_order_acquire); }

}  // namespace busbw::record
