// Poisoning a communicator.
#include "library/gpu/watch/health.h"

#include <cstdio>

#include "library/common/failure.h"

namespace busbw::gpu {

bool Health::poison(ncclResult_t code, const std::string& sentence) {
  const bool first = report(code, sentence);
  end_kernels();
  return first;
}

bool Health::report(ncclResult_t code, const std::string& sentence) {
  const std::lock_guard lock(guard_);
  if (code_.load() != ncclSuccess) return false;
  sentence_ = sentence;
  code_.store(code, std::memory_order_release);
  return true;
}

void Health::limit(std::uint64_t calls, const std::string& sentence) {
  const std::lock_guard lock(guard_);
  if (calls >= limit_) return;
  limit_sentence_ = sentence;
  limit_ = calls;
}

void Health::exceed() {
  std::string sentence;
  {
    const std::lock_guard lock(guard_);
    sentence = limit_sentence_;
  }
  report(ncclRemoteError, sentence);
  fail();
}

void Health::end_kernels() {
  const std::lock_guard lock(guard_);
  ended_ = true;
  if (abort_word_) __atomic_store_n(abort_word_, 1, __ATOMIC_RELEASE);
}

void Health::tell() {
  const std::lock_guard lock(guard_);
  if (told_ || code_.load() == ncclSuccess) return;
  told_ = true;
  std::fprintf(stderr, "busbw: %s\n", sentence_.c_str());
}

std::string Health::sentence() const {
  const std::lock_guard lock(guard_);
  return sentence_;
}

void Health::set_abort_word(std::uint32_t* word) {
  const std::lock_guard lock(guard_);
  abort_word_ = word;
  if (word && ended_) __atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

void Health::fail() const { throw Failure(code(), sentence()); }

}  // namespace busbw::gpu
