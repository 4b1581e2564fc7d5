// What the recorder knows of each communicator that a program has made through it.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "busbw/nccl_abi.h"
#include "library/record/marks.h"
#include "library/record/recording.h"
#include "library/record/this_thread.h"

namespace busbw::record {

struct Rank {
  Recording* recording = nullptr;
  Communicator* row = nullptr;
  std::uint64_t identity = 0;
  // How often it was split or grown: the same on all ranks, as all of them take part.
  std::atomic<std::uint64_t> children{0};
  // How often it was shrunk by the same ranks, by a hash of these: those that are left out do not call.
  std::unordered_map<std::uint64_t, std::uint64_t> shrinks;
  // Null where there is no GPU, or nothing may be asked of it.
  Marks* marks = nullptr;
};

// Where a new communicator's handle will be, and what is known of it before.
struct NewRank {
  const ncclComm_t* handle = nullptr;
  std::uint64_t identity = 0;
  std::uint64_t parent = 0;
  record::Made how = record::Made::none;
  // -1: NCCL is asked.
  int rank = -1;
  int ranks = -1;
  int color = 0;
};

std::uint64_t identity_of(const ncclUniqueId& id);
std::uint64_t identity_of_child(std::uint64_t parent, record::Made how, std::uint64_t number, int color);
// Of the one that is left when these ranks are taken out, in whichever order they are given.
std::uint64_t identity_of_shrunk(Rank& parent, const int* excluded, int count);

// While NCCL makes one: says so in the recording. Of several at once in a process the first.
class Making {
 public:
  explicit Making(const NewRank& one);
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  // NCCL has not made it.
  void refused(int error);

 private:
  Header* header_ = nullptr;
};

// Null for a communicator that was not made through us, and where nothing is recorded.
Rank* look_up(ncclComm_t comm, ThisThread& thread);
inline Rank* find(ncclComm_t comm, ThisThread& thread) {
  if (thread.comm == comm && thread.edition == edition.load(std::memory_order_acquire)) return thread.rank;
  return look_up(comm, thread);
}
inline Rank* find(ncclComm_t comm) { return find(comm, this_thread); }
void ended(ncclComm_t comm, Ended how);
// Those that live, of this process.
std::vector<Rank*> all_ranks();

// While NCCL ends one, for which it may wait for the other ranks.
class Ending {
 public:
  explicit Ending(const Rank* rank) : row_(rank ? rank->row : nullptr) { note(2); }
  ~Ending() { note(0); }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  void note(std::uint32_t what) {
    if (row_) row_->in_group_end.store(what, std::memory_order_relaxed);
  }
  Communicator* row_;
};

// This thread's group: calls in it come back, and communicators are there, when the outermost one ends.
class Group {
 public:
  static Group& of_this_thread();
  void started();
  // Before the library's own: calls of the outermost group are made by it.
  void ending();
  // `worked`: the library has given its work to the GPU. An error is told of all its communicators: of which it is,
  // NCCL does not say.
  void ended(bool worked, int error = ncclSuccess);
  // In place of it, where NCCL was only asked how long the group would take (ncclGroupSimulateEnd): its calls were
  // never made. Their numbers are given again, and what stands of them in the ring is marked as failed.
  void simulated();
  // A call of the group, by what begin() gave for it.
  void add(Rank* rank, const Ticket& ticket = {});
  // Its end is that of the group.
  void add(const Mark& mark) { marks_.push_back(mark); }
  // One begin for each stream of the group, and one end when it ends.
  void time(Rank* rank, const Ticket& ticket, const void* stream);
  void add(const NewRank& made);
  // The first of those that the group makes when it ends, or null.
  const NewRank* first_made() const { return made_.empty() ? nullptr : made_.data(); }

 private:
  struct Calls {
    Rank* rank;
    std::uint64_t calls;
  };
  void end_times(bool worked);
  std::vector<Calls> calls_;
  std::vector<Ticket> tickets_;
  std::vector<NewRank> made_;
  std::vector<struct Timed*> timed_;
  std::vector<Mark> marks_;
};

// Now, or when the group ends.
void made(const NewRank& one);

}  // namespace busbw::record
