// The steps from a window of NCCL's to one that copy engines write.
#include "library/gpu/join/window_opening.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "library/common/failure.h"
#include "library/common/process.h"
#include "library/gpu/choose/settings.h"
#include "library/gpu/join/together.h"

namespace busbw::gpu {

WindowOpening::WindowOpening(NewWindow window)
    : new_(std::move(window)), device_(new_.ours->device()), rank_(new_.ours->rank()), ranks_(new_.ours->ranks()) {
  records_ = std::make_unique<Exchange>(device_, new_.comm, rank_, ranks_, sizeof(WindowRecord));
  verdicts_ = std::make_unique<Exchange>(device_, new_.comm, rank_, ranks_, sizeof(PeerVerdict));
  prepare();
}

void WindowOpening::refuse(const std::string& reason) {
  record_.able = verdict_.able = 0;
  put_text(record_.reason, reason);
  put_text(verdict_.reason, reason);
}

void WindowOpening::prepare() {
  record_.able = verdict_.able = 1;
  record_.process = this_process().token;
  record_.address = reinterpret_cast<std::uintptr_t>(new_.memory);
  record_.bytes = new_.bytes;
  try {
    window_ = std::make_unique<Window>(device_, new_.memory, new_.bytes);
    record_.range = device_->share_range(new_.memory, new_.bytes, descriptor_);
    post_ = std::make_unique<DescriptorPost>();
    record_.post = post_->address();
  } catch (const Failure& failure) {
    refuse(failure.what());
  }
}

const WindowRecord& WindowOpening::of(int rank) const { return *static_cast<const WindowRecord*>(records_->of(rank)); }

void WindowOpening::open_peers() {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (of(rank).able) continue;
    const char* reason = of(rank).reason;
    return refuse(std::string(reason, ::strnlen(reason, sizeof of(rank).reason)));
  }
  try {
    // All that goes out before anything is waited for.
    for (int rank = 0; rank < ranks_; ++rank) {
      if (elsewhere(rank) && descriptor_.valid()) post_->send(of(rank).post, rank_, descriptor_);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      window_->limit(of(rank).bytes);
      if (rank == rank_) continue;
      if (!elsewhere(rank)) {
        void* memory = reinterpret_cast<void*>(of(rank).address);
        if (of(rank).range.by_descriptor) device_->check_reach(memory);
        window_->reach(rank, memory);
      } else if (!of(rank).range.by_descriptor) {
        window_->open(rank, of(rank).range, Descriptor());
      }
    }
  } catch (const Failure& failure) {
    refuse(failure.what());
  }
}

void WindowOpening::meet_peers(std::chrono::steady_clock::time_point deadline) {
  const auto missing = [&] {
    int count = 0;
    for (int rank = 0; rank < ranks_; ++rank) count += rank != rank_ && !window_->reaches(rank);
    return count;
  };
  try {
    while (verdict_.able && missing() > 0) {
      const DescriptorPost::Letter letter = post_->receive(deadline);
      if (letter.rank < 0 || letter.rank >= ranks_ || letter.rank == rank_ || window_->reaches(letter.rank)) continue;
      window_->open(letter.rank, of(letter.rank).range, letter.descriptors.front());
    }
  } catch (const Failure& failure) {
    refuse(failure.what());
  }
}

void WindowOpening::conclude() {
  if (!knows_records()) return;
  if (!knows_verdicts()) {
    // The others may write into the window already.
    if (verdict_.able) {
      new_.ours->fail(ncclRemoteError, text("rank %d did not learn whether all ranks can write to a window that it "
                                            "registered: %s; set BUSBW_GPU=0 to do without busbw's GPU library",
                                            rank_, verdicts_lost_.c_str()));
    }
    return;
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    PeerVerdict verdict;
    std::memcpy(&verdict, verdicts_->of(rank), sizeof verdict);
    if (verdict.able) continue;
    if (rank_ == 0 && new_.ours->log_level() != LogLevel::none) {
      const std::string reason(verdict.reason, ::strnlen(verdict.reason, sizeof verdict.reason));
      std::fprintf(stderr, "busbw: a window of %zu bytes is left to NCCL: rank %d: %s\n", new_.bytes, rank,
                   reason.c_str());
    }
    return;
  }
  new_.ours->add_window(new_.handle, std::move(window_));
}

void open_windows(const std::vector<NewWindow>& registered) {
  const AsideFromCaptures aside;
  std::vector<std::shared_ptr<WindowOpening>> all;
  double patience = 60;
  try {
    patience = Settings::from_environment().timeout_seconds;
  } catch (const Failure&) {
    // Told when the communicator was made.
  }
  for (const NewWindow& window : registered) {
    try {
      all.push_back(std::make_shared<WindowOpening>(window));
    } catch (const std::exception& error) {
      // Its peers wait for it: it must not look as if it were left out by all.
      window.ours->fail(ncclSystemError, std::string("this rank cannot tell its peers of a window: ") + error.what());
    }
  }
  Together<WindowOpening>::agree(all, patience);
  for (const auto& one : all) one->conclude();
}

}  // namespace busbw::gpu
