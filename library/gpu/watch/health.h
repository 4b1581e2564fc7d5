// Whether a communicator can still be used: a lost peer, an abort or a failed launch poisons it for good.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "busbw/nccl_abi.h"

namespace busbw::gpu {

class Health {
 public:
  // Only the first reason counts. Ends what waits on the GPU; from any thread. True for the first.
  bool poison(ncclResult_t code, const std::string& sentence);
  // The two halves of it. Kernels that are ended run on over whatever is there and send it to their peers, so that all
  // ranks shall know of the loss before any of them ends its kernels.
  bool report(ncclResult_t code, const std::string& sentence);
  void end_kernels();
  // A rank has gone that this one still needs in none of its first `calls` calls: a further one cannot be done, and
  // fails with `sentence`. The smallest number counts.
  void limit(std::uint64_t calls, const std::string& sentence);
  std::uint64_t limit() const { return limit_.load(); }
  bool limited() const { return limit() != no_limit; }
  // For a call beyond the limit: throws a Failure with the sentence.
  [[noreturn]] void exceed();
  // One line on stderr, once: a program that only waits for its stream learns it nowhere else.
  void tell();

  ncclResult_t code() const { return code_.load(std::memory_order_acquire); }
  std::string sentence() const;
  // Throws a Failure with the sentence if poisoned.
  void check() const {
    if (code() != ncclSuccess) [[unlikely]]
      fail();
  }

  // The word that kernels look at; null before its memory is given back.
  void set_abort_word(std::uint32_t* word);

 private:
  [[noreturn]] void fail() const;

  static constexpr std::uint64_t no_limit = ~std::uint64_t{0};

  mutable std::mutex guard_;
  std::atomic<ncclResult_t> code_{ncclSuccess};
  std::string sentence_;
  std::atomic<std::uint64_t> limit_{no_limit};
  std::string limit_sentence_;
  bool told_ = false;
  std::uint32_t* abort_word_ = nullptr;
  bool ended_ = false;
};

}  // namespace busbw::gpu
