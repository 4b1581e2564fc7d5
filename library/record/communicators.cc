// Handles to rows of the recording, with the last one of each thread at hand.
#include "library/record/communicators.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "library/common/nccl/real_nccl.h"
#include "library/record/cuda.h"
#include "library/record/gpu_times.h"
#include "library/record/graphs.h"
#include "library/record/heart.h"

namespace busbw::record {

namespace {

struct Table {
  std::shared_mutex guard;
  std::unordered_map<ncclComm_t, Rank*> ranks;
  // Ended, the oldest first. A thread may still hold the newest ones from its last call or an open group.
  std::deque<Rank*> ended;
};
constexpr std::size_t kept_after_their_end = 1024;

Table& table() {
  // Never destroyed: programs call NCCL while they exit.
  static auto* all = new Table;
  return *all;
}

std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ value >> 27) * 0x94d049bb133111ebull;
  return value ^ value >> 31;
}

void enter(const NewRank& one) {
  Recording* recording = record::recording();
  if (!recording || !one.handle || !*one.handle) return;
  find_cuda();
  hook_graphs();
  recording->header().sees_launches.store(graphs_are_hooked() ? 1 : 0, std::memory_order_relaxed);
  const ncclComm_t comm = *one.handle;
  const RealNccl& real = real_nccl();
  int rank = one.rank, ranks = one.ranks, device = -1;
  if (rank < 0 && real.user_rank) call_nccl(real.user_rank, comm, &rank);
  if (ranks < 0 && real.count) call_nccl(real.count, comm, &ranks);
  if (real.cu_device) call_nccl(real.cu_device, comm, &device);
  // Freed long after its end, where the recorder's thread does not look at it.
  auto* entry = new Rank;
  entry->recording = recording;
  entry->identity = one.identity;
  const auto name = reinterpret_cast<busbwLibraryName_t*>(dlsym(real.handle, "busbwLibraryName"));
  recording->header().synchronous = name && std::strstr(name(), "CPU") ? 1 : 0;
  if (recording->header().synchronous == 0) entry->marks = new_marks();
  {
    const std::unique_lock lock(table().guard);
    entry->row = recording->add();
    if (Communicator* row = entry->row) {
      row->identity = one.identity;
      row->parent = one.parent;
      row->rank = rank;
      row->ranks = ranks;
      row->device = device;
      row->color = one.color;
      row->made_ns = Recording::now_ns();
      std::atomic_thread_fence(std::memory_order_release);
      row->made = one.how;
    }
    table().ranks[comm] = entry;
    edition.fetch_add(1);
  }
  if (entry->marks) start_heart(recording);
  if (recording->header().nccl_version == 0) recording->header().nccl_version = real.version;
}

}  // namespace

std::uint64_t identity_of(const ncclUniqueId& id) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char byte : id.internal) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ull;
  return mixed(hash);
}

std::uint64_t identity_of_child(std::uint64_t parent, record::Made how, std::uint64_t number, int color) {
  return mixed(mixed(mixed(parent) ^ std::uint64_t(how) << 56 ^ number) ^ std::uint64_t(std::uint32_t(color)));
}

std::uint64_t identity_of_shrunk(Rank& parent, const int* excluded, int count) {
  std::vector<int> ranks(excluded, excluded + (excluded && count > 0 ? count : 0));
  std::sort(ranks.begin(), ranks.end());
  std::uint64_t hash = mixed(ranks.size());
  for (const int rank : ranks) hash = mixed(hash ^ std::uint64_t(std::uint32_t(rank)));
  static std::mutex guard;
  const std::lock_guard lock(guard);
  return identity_of_child(parent.identity ^ hash, record::Made::shrink, parent.shrinks[hash]++, 0);
}

Making::Making(const NewRank& one) {
  Recording* recording = one.how == record::Made::none ? nullptr : record::recording();
  if (!recording) return;
  Header& header = recording->header();
  static std::mutex guard;
  const std::lock_guard lock(guard);
  if (header.making.load(std::memory_order_relaxed) != record::Made::none) return;
  header.making_identity = one.parent ? one.parent : one.identity;
  header.making_ns = Recording::now_ns();
  header.making_rank = one.rank;
  header.making_ranks = one.ranks;
  header.making.store(one.how, std::memory_order_release);
  header_ = &header;
}

void Making::refused(int error) {
  if (!header_) return;
  header_->refused_identity = header_->making_identity;
  header_->refused_rank = header_->making_rank;
  header_->refused_ranks = header_->making_ranks;
  header_->refused_error = error;
  header_->refused.store(header_->making.load(std::memory_order_relaxed), std::memory_order_release);
}

Making::~Making() {
  if (header_) header_->making.store(record::Made::none, std::memory_order_release);
}

Rank* look_up(ncclComm_t comm, ThisThread& thread) {
  const std::uint64_t now = edition.load(std::memory_order_acquire);
  const std::shared_lock lock(table().guard);
  const auto found = table().ranks.find(comm);
  Rank* rank = found == table().ranks.end() ? nullptr : found->second;
  // A child of a fork does not write into its parent's file.
  if (rank && rank->recording != recording()) rank = nullptr;
  thread.comm = comm;
  thread.rank = rank;
  thread.edition = now;
  return rank;
}

void ended(ncclComm_t comm, Ended how) {
  Rank* rank = find(comm);
  // An abort may come where the GPU hangs.
  if (rank && how == Ended::destroyed) look_at_times(rank->recording);
  if (rank && rank->row) {
    rank->row->ended_ns = Recording::now_ns();
    rank->row->ended.store(how, std::memory_order_release);
  }
  if (how == Ended::revoked) return;
  const std::unique_lock lock(table().guard);
  table().ranks.erase(comm);
  edition.fetch_add(1);
  if (!rank || rank->marks || rank->recording->header().times_every != 0) return;
  std::deque<Rank*>& all = table().ended;
  all.push_back(rank);
  if (all.size() <= kept_after_their_end) return;
  delete all.front();
  all.pop_front();
}

std::vector<Rank*> all_ranks() {
  std::vector<Rank*> all;
  const std::shared_lock lock(table().guard);
  for (const auto& [comm, rank] : table().ranks) all.push_back(rank);
  return all;
}

Group& Group::of_this_thread() {
  static thread_local Group group;
  return group;
}

void Group::started() {
  static std::atomic<std::uint32_t> numbers{0};
  if (this_thread.groups++ == 0)
    this_thread.group = std::uint16_t(numbers.fetch_add(1, std::memory_order_relaxed) % 4095 + 1);
}

void Group::ending() {
  if (this_thread.groups != 1) return;
  for (const Calls& one : calls_)
    if (one.rank->row) one.rank->row->in_group_end.store(1, std::memory_order_relaxed);
}

void Group::ended(bool worked, int error) {
  if (this_thread.groups == 0 || --this_thread.groups > 0) return;
  this_thread.group = 0;
  end_times(worked);
  tickets_.clear();
  const std::uint64_t now = Recording::now_ns();
  for (const Calls& one : std::exchange(calls_, {})) {
    if (one.rank->row) one.rank->row->in_group_end.store(0, std::memory_order_relaxed);
    if (one.rank->row && is_failure(error)) one.rank->row->last_error = error;
    Recording::count_as_returned(one.rank->row, one.calls, now);
  }
  for (const NewRank& one : std::exchange(made_, {})) enter(one);
}

void Group::simulated() {
  if (this_thread.groups == 0 || --this_thread.groups > 0) return;
  this_thread.group = 0;
  end_times(false);
  calls_.clear();
  for (const Ticket& one : tickets_) Recording::take_back(one);
  tickets_.clear();
  for (const NewRank& one : std::exchange(made_, {})) enter(one);
}

void Group::end_times(bool worked) {
  for (Timed* one : std::exchange(timed_, {})) end_time(one, worked);
  for (const Mark& one : std::exchange(marks_, {})) one.end(worked);
}

void Group::add(Rank* rank, const Ticket& ticket) {
  tickets_.push_back(ticket);
  const auto found = std::find_if(calls_.begin(), calls_.end(), [&](const Calls& one) { return one.rank == rank; });
  if (found != calls_.end()) {
    ++found->calls;
  } else {
    calls_.push_back({rank, 1});
  }
}

void Group::time(Rank* rank, const Ticket& ticket, const void* stream) {
  const auto found = std::find_if(timed_.begin(), timed_.end(), [&](Timed* one) { return is_on(one, stream); });
  if (found != timed_.end()) {
    add_to_time(*found, ticket);
  } else if (Timed* one = begin_time(rank, ticket, stream)) {
    timed_.push_back(one);
  }
}

void Group::add(const NewRank& made) { made_.push_back(made); }

void made(const NewRank& one) { this_thread.groups > 0 ? Group::of_this_thread().add(one) : enter(one); }

}  // namespace busbw::record
