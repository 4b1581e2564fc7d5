// One rank's end of a communicator: its place in the shared segment, its epoch, and the exchanges that all algorithms
// are made of.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "library/cpu/bootstrap.h"
#include "library/cpu/collective.h"
#include "library/cpu/layout.h"
#include "library/cpu/shared_segment.h"
#include "library/cpu/shared_store.h"
#include "library/cpu/watch.h"

namespace busbw::cpu {

struct Transfer;

class Communicator {
 public:
  // Meets the other ranks; throws when they do not come.
  Communicator(const UniqueId& id, int ranks, int rank);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  void run(const Collective& call);
  // All at once: no order among them can block them.
  void run(std::vector<Transfer>& transfers);
  // Every rank's `mine`, in rank order.
  template <class T>
  std::vector<T> exchange(const T& mine) {
    std::vector<T> all(std::size_t(ranks_), mine);
    run({.kind = CollectiveKind::internal, .count = sizeof(T), .send = &mine, .recv = all.data()});
    return all;
  }

  // From any thread: makes the pending call and all later ones fail, here and on the other ranks. `did`: "aborted".
  void abort(const char* did);
  ncclResult_t failure() const { return watch_->failure(); }

  // For the algorithms ------------------------------------------------------------------------------------------------

  SharedSegment& segment() { return *segment_; }
  Watch& watch() { return *watch_; }
  bool same_process(int rank) const { return same_process_[std::size_t(rank)] != 0; }
  bool one_process() const { return one_process_; }

  // The header line of this rank for the next epoch, free to be filled; publish() makes it visible.
  Epoch next_epoch() const { return published_ + 1; }
  HeaderLine& next_line() { return segment_->line(rank_, next_epoch()); }
  // `payload_bytes` behind the header: a hint how many lines the next call of this kind will write.
  void publish(const Collective& call, std::size_t payload_bytes = 0);
  // Waits for every rank's header of `epoch` and checks that all ranks mean the same call.
  // `payload_bytes` behind the header, if any, are fetched meanwhile: a hint, for payloads of a few lines.
  void await(const Collective& call, Epoch epoch, std::size_t payload_bytes = 0);
  Epoch published() const { return published_; }

  // Per pair and direction: ring entries used so far, by this rank.
  std::vector<std::uint32_t> sent, received;
  SharedStore shared_store;

 private:
  [[noreturn]] void fail_mismatch(const Collective& call, int peer, std::uint32_t what, std::size_t count);

  std::shared_ptr<SharedSegment> segment_;
  int rank_;
  int ranks_;
  std::unique_ptr<Watch> watch_;
  Epoch published_ = 0;
  std::size_t short_max_bytes_ = 0;
  std::size_t short_before_direct_bytes_ = 0;
  bool crowded_ = false;  // more ranks than processors
  std::vector<unsigned char> same_process_;
  bool one_process_ = false;
};

}  // namespace busbw::cpu
