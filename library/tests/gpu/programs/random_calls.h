// Anything that a program may do, by a seed that all ranks share.
#pragma once

#include "library/tests/gpu/programs/ranks.h"
#include "library/tests/gpu/programs/slots.h"

namespace programs {

class Random {
 public:
  Random(Rank& r, std::uint64_t seed) : r_(r), state_(seed * 0x9e3779b97f4a7c15U + 1) {}

  void run(int epochs) {
    for (int i = 0; i < 3; ++i) streams_.push_back(r_.stream());
    for (int i = 0; i < 8; ++i) slots_.push_back(new_slot(r_, i, sizes[below(4)]));
    for (int epoch = 0; epoch < epochs; ++epoch) {
      if (!comm_ || below(4) == 0) renew();
      for (int i = 0; i < 12; ++i) step();
      check();
    }
    forget_graphs();
    r_.nccl.check(r_.nccl.destroy(comm_), "ncclCommDestroy");
  }

 private:
  struct Kept {
    Captured captured;
    std::vector<std::size_t> slots;
  };

  std::uint64_t below(std::uint64_t limit) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (state_ >> 33) % limit;
  }
  std::size_t any_slot() { return std::size_t(below(slots_.size())); }
  Stream any_stream() { return streams_[std::size_t(below(streams_.size()))]; }

  void renew() {
    forget_graphs();
    if (comm_) r_.nccl.check(r_.nccl.destroy(comm_), "ncclCommDestroy");
    comm_ = r_.new_comm();
  }
  void forget_graphs() {
    for (const Kept& kept : graphs_) destroy(r_, kept.captured);
    graphs_.clear();
  }
  void use(std::size_t slot, Stream stream) {
    call(r_, comm_, slots_[slot], stream);
    used_.push_back(slot);
  }

  void step() {
    // Drawn by all alike, done by one of them: a rank that comes late.
    const std::uint64_t late = below(std::uint64_t(r_.ranks) * 4);
    const Stream stream = any_stream();
    if (late == std::uint64_t(r_.rank)) r_.spin(stream, 1);
    switch (below(8)) {
      case 0: {
        const std::size_t at = std::size_t(below(streams_.size()));
        r_.cuda.check(r_.cuda.stream_destroy(streams_[at]), "cuStreamDestroy");
        streams_[at] = r_.stream();
        return;
      }
      case 1: {
        group_start(r_);
        for (int i = 0; i < 3; ++i) {
          const std::size_t slot = any_slot();
          use(slot, any_stream());
        }
        group_end(r_);
        return;
      }
      case 2:
        if (graphs_.size() < 4) graphs_.push_back(new_graph());
        return;
      case 3:
      case 4: {
        if (graphs_.empty()) return;
        const Kept& kept = graphs_[std::size_t(below(graphs_.size()))];
        launch(r_, kept.captured, stream);
        used_.insert(used_.end(), kept.slots.begin(), kept.slots.end());
        return;
      }
      default:
        use(any_slot(), stream);
    }
  }

  Kept new_graph() {
    Kept kept;
    const Stream one = r_.stream();
    const Stream two = r_.stream();
    const bool both = below(2) == 0;
    const std::uint64_t calls = 1 + below(4);
    kept.captured = capture(r_, one, [&] {
      if (both) join(r_, two, one);
      for (std::uint64_t i = 0; i < calls; ++i) {
        const std::size_t slot = any_slot();
        call(r_, comm_, slots_[slot], both && i % 2 == 1 ? two : one);
        kept.slots.push_back(slot);
      }
      if (both) join(r_, one, two);
    });
    r_.cuda.check(r_.cuda.stream_destroy(one), "cuStreamDestroy");
    r_.cuda.check(r_.cuda.stream_destroy(two), "cuStreamDestroy");
    return kept;
  }

  void check() {
    // The last call is done when all are, also those of streams that are gone.
    const Stream last = r_.stream();
    use(0, last);
    r_.wait(last);
    r_.cuda.check(r_.cuda.stream_destroy(last), "cuStreamDestroy");
    for (const Stream stream : streams_) r_.wait(stream);
    settle(r_);
    for (const std::size_t slot : used_) expect(r_, slots_[slot], "a random call");
    for (const std::size_t slot : used_) clear(r_, slots_[slot]);
    used_.clear();
    settle(r_);
  }

  Rank& r_;
  std::uint64_t state_;
  ncclComm_t comm_ = nullptr;
  std::vector<Stream> streams_;
  std::vector<Slot> slots_;
  std::vector<Kept> graphs_;
  std::vector<std::size_t> used_;
};

}  // namespace programs
