// Makes communicators.
#include "library/cpu/making.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "library/cpu/checks.h"

namespace busbw::cpu {
namespace {

// Fills `comm` with a new rank; on failure the handle stays, without a core, for ncclCommDestroy.
ncclResult_t join(ncclComm& comm, const UniqueId& id, int ranks, int rank) {
  return guarded(&comm, [&] {
    comm.core = std::make_unique<Communicator>(id, ranks, rank);
    comm.id = id;
    return ncclSuccess;
  });
}

ncclResult_t join_as(ncclComm_t* result, int device, const UniqueId& id, int ranks, int rank) {
  auto comm = std::make_unique<ncclComm>();
  comm->device = device;
  const ncclResult_t joined = join(*comm, id, ranks, rank);
  *result = joined == ncclSuccess ? comm.release() : nullptr;
  return joined;
}

struct SplitWish {
  int color;
  int key;
  UniqueId id;
};

// The ranks of a revoked communicator cannot ask each other by it any more: they meet anew for that.
ncclResult_t meet_again(const ncclComm& parent, const UniqueId& id, ncclComm_t* result) {
  return join_as(result, parent.device, id, parent.core->ranks(), parent.core->rank());
}

ncclResult_t split(ncclComm& parent, int color, int key, ncclComm_t* result) {
  *result = nullptr;
  std::vector<SplitWish> wishes;
  const ncclResult_t code = run_exclusively(
      parent, [&](Communicator& core) { wishes = core.exchange(SplitWish{color, key, UniqueId::make()}); });
  if (code != ncclSuccess || color == NCCL_SPLIT_NOCOLOR) return code;
  // New ranks go by key, then by rank in the parent; the id is that of the first of them.
  std::vector<int> members;
  for (int rank = 0; rank < int(wishes.size()); ++rank) {
    if (wishes[std::size_t(rank)].color == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return wishes[std::size_t(a)].key < wishes[std::size_t(b)].key; });
  const auto me = std::find(members.begin(), members.end(), parent.core->rank());
  return join_as(result, parent.device, wishes[std::size_t(members.front())].id, int(members.size()),
                 int(me - members.begin()));
}

// In order, and fit to make a communicator without them.
std::vector<int> checked_exclusion(const int* excluded, int count, int rank, int ranks) {
  if (!excluded || count <= 0) throw Failure(ncclInvalidArgument, "The list of ranks to leave out is empty.");
  if (count >= ranks) {
    throw Failure(ncclInvalidArgument, text("%d ranks of %d cannot be left out: one has to stay.", count, ranks));
  }
  std::vector<int> list(excluded, excluded + count);
  std::sort(list.begin(), list.end());
  for (const int one : list) check_peer("rank to leave out", one, ranks);
  if (std::adjacent_find(list.begin(), list.end()) != list.end())
    throw Failure(ncclInvalidArgument, "A rank stands twice in the list of ranks to leave out.");
  if (std::binary_search(list.begin(), list.end(), rank)) {
    throw Failure(ncclInvalidArgument, text("Rank %d is to be left out; only ranks that stay call this.", rank));
  }
  return list;
}

// The same for all ranks that stay, which know the parent's id and how often just they have made a communicator of it.
UniqueId id_without(const UniqueId& parent, const std::vector<int>& excluded, std::uint64_t turn) {
  std::uint64_t halves[2];
  static_assert(sizeof halves == sizeof parent.name);
  std::memcpy(halves, parent.name, sizeof halves);
  const auto mix = [&](std::uint64_t value) {
    for (std::uint64_t& half : halves) {
      half = (half ^ value) * 0xff51afd7ed558ccdULL;
      half ^= half >> 32;
    }
  };
  mix(turn);
  for (const int rank : excluded) mix(std::uint64_t(rank) + 1);
  UniqueId id = parent;
  std::memcpy(id.name, halves, sizeof halves);
  return id;
}

struct GrowthWish {
  int ranks;
  bool has_id;
  UniqueId id;
};

UniqueId agreed(const std::vector<GrowthWish>& wishes, int ranks) {
  const UniqueId* found = nullptr;
  for (const GrowthWish& wish : wishes) {
    if (wish.ranks != ranks) {
      throw Failure(ncclInvalidArgument,
                    text("Ranks disagree on their number: one says %d, this one says %d.", wish.ranks, ranks));
    }
    if (wish.has_id && found && std::memcmp(found->name, wish.id.name, sizeof found->name) != 0)
      throw Failure(ncclInvalidArgument, "Two ranks gave unlike ids to a communicator that grows.");
    if (wish.has_id) found = &wish.id;
  }
  if (!found) throw Failure(ncclInvalidArgument, "No rank gave the id of ncclCommGetUniqueId to ncclCommGrow.");
  return *found;
}

ncclResult_t grow(ncclComm& parent, const GrowthWish& mine, ncclComm_t* result) {
  *result = nullptr;
  std::vector<GrowthWish> wishes;
  const ncclResult_t code = run_exclusively(parent, [&](Communicator& core) { wishes = core.exchange(mine); });
  if (code != ncclSuccess) return code;
  return guarded(&parent, [&] {
    return join_as(result, parent.device, agreed(wishes, mine.ranks), mine.ranks, parent.core->rank());
  });
}

void check_number(int ranks) {
  if (ranks < 1 || ranks > max_ranks) {
    throw Failure(ncclInvalidArgument,
                  text("A communicator of %d ranks was asked for; 1 to %d are possible.", ranks, max_ranks));
  }
}

}  // namespace

ncclResult_t init_rank(ncclComm_t* result, int ranks, const ncclUniqueId& id, int rank, int device,
                       const ncclConfig_t* config) {
  checked_pointer(result, "communicator");
  check_config(config);
  check_number(ranks);
  check_peer("rank", rank, ranks);
  const UniqueId ours = UniqueId::from(id);
  ours.check();
  auto comm = std::make_unique<ncclComm>();
  comm->device = device;
  *result = comm.get();
  return submit_setup([comm = comm.release(), result, ours, ranks, rank] {
    const ncclResult_t code = join(*comm, ours, ranks, rank);
    if (code != ncclSuccess) {
      *result = nullptr;
      delete comm;
    }
    return code;
  });
}

ncclResult_t init_split(ncclComm_t parent, int color, int key, ncclComm_t* result, const ncclConfig_t* config) {
  core_of(checked(parent));
  checked_pointer(result, "new communicator");
  check_config(config);
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    throw Failure(ncclInvalidArgument, text("The colour of a split is %d; it must not be negative.", color));
  }
  if (!parent->revoked.load()) return submit_setup([=] { return split(*parent, color, key, result); });
  const UniqueId id = id_without(parent->id, {}, ++parent->shrinks[{}]);
  return submit_setup([=] {
    ncclComm_t anew = nullptr;
    if (const ncclResult_t met = meet_again(*parent, id, &anew); met != ncclSuccess) return met;
    const std::unique_ptr<ncclComm> owner(anew);
    return split(*anew, color, key, result);
  });
}

ncclResult_t init_shrunk(ncclComm_t parent, const int* excluded, int excluded_count, ncclComm_t* result,
                         const ncclConfig_t* config, bool aborts) {
  const Communicator& core = core_of(checked(parent));
  checked_pointer(result, "new communicator");
  check_config(config);
  const std::vector<int> list = checked_exclusion(excluded, excluded_count, core.rank(), core.ranks());
  if (aborts) end_calls(*parent, "aborted");
  const UniqueId id = id_without(parent->id, list, ++parent->shrinks[list]);
  const int before = int(std::lower_bound(list.begin(), list.end(), core.rank()) - list.begin());
  *result = nullptr;
  return submit_setup([=, device = parent->device, ranks = core.ranks() - int(list.size()),
                       rank = core.rank() - before] { return join_as(result, device, id, ranks, rank); });
}

ncclResult_t init_grown(ncclComm_t parent, int ranks, const ncclUniqueId* id, ncclComm_t* result,
                        const ncclConfig_t* config) {
  const Communicator& core = core_of(checked(parent));
  checked_pointer(result, "new communicator");
  check_config(config);
  check_number(ranks);
  if (ranks <= core.ranks()) {
    throw Failure(ncclInvalidArgument,
                  text("A communicator of %d ranks cannot grow to %d ranks.", core.ranks(), ranks));
  }
  const GrowthWish mine{.ranks = ranks, .has_id = id != nullptr, .id = id ? UniqueId::from(*id) : UniqueId{}};
  if (id) mine.id.check();
  return submit_setup([=] { return grow(*parent, mine, result); });
}

void end_calls(ncclComm& comm, const char* did) {
  if (comm.core) comm.core->abort(did);
  while (comm.busy.load(std::memory_order_acquire) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace busbw::cpu
