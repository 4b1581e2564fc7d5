// Communicators and buffers of ranks.
#include "engine/measure/rank.h"

#include <cstddef>
#include <optional>

namespace busbw {
namespace {

// The widest element: -u counts elements, and every type of a run shares the buffers.
constexpr std::size_t widest_element = 8;

DeviceMemory library_or_device_memory(Rank& rank, const Library& library, std::size_t bytes) {
  const NcclFunctions& nccl = library.nccl();
  // NCCL's own allocator makes memory that its fastest paths can use; nccl-tests takes it as well.
  if (nccl.mem_alloc != nullptr && nccl.mem_free != nullptr && library.at_least(2, 19, 0)) {
    void* memory = nullptr;
    library.check(nccl.mem_alloc(&memory, bytes), format("ncclMemAlloc of %zu bytes", bytes).c_str());
    return {memory, [free = nccl.mem_free](void* m) { free(m); }};
  }
  Device* device = rank.device.get();
  return {device->allocate(bytes), [device](void* m) { device->release(m); }};
}

// The fields that a library of this version knows; it reads no further than `size`.
std::size_t config_size(const Library& library) {
  if (library.at_least(2, 30, 0)) return sizeof(ncclConfig_t);
  if (library.at_least(2, 28, 0)) return offsetof(ncclConfig_t, graphUsageMode);
  return offsetof(ncclConfig_t, nChannelsPerNetPeer);
}

ncclConfig_t config_for(const Library& library, const Plan& plan) {
  constexpr int undefined = NCCL_CONFIG_UNDEF_INT;
  ncclConfig_t config{};
  config.size = config_size(library);
  config.magic = NCCL_API_MAGIC;
  config.version = static_cast<unsigned>(std::min(library.version_code(), version_code(2, 30, 0)));
  for (int* field : {&config.blocking, &config.cgaClusterSize, &config.minCTAs, &config.maxCTAs, &config.splitShare,
                     &config.trafficClass, &config.collnetEnable, &config.CTAPolicy, &config.shrinkShare,
                     &config.nvlsCTAs, &config.nChannelsPerNetPeer, &config.nvlinkCentricSched, &config.graphUsageMode,
                     &config.numRmaCtx, &config.maxP2pPeers, &config.graphStreamOrdering})
    *field = undefined;
  // What nccl-tests sets, so that both measure the same: section 2 of docs/reference/differences-from-nccl-tests.md.
  if (library.at_least(2, 28, 0)) config.nvlinkCentricSched = 1;
  if (library.at_least(2, 30, 0) && plan.collective == "sendrecv") config.maxP2pPeers = 2;
  if (plan.cta_policy) config.CTAPolicy = *plan.cta_policy;
  return config;
}

}  // namespace

void allocate_buffers(Rank& rank, const Library& library, const Plan& plan, Bytes bytes) {
  const std::size_t room = bytes.count + plan.unaligned_elements * widest_element;
  rank.device->use();
  rank.send = library_or_device_memory(rank, library, room);
  rank.recv = library_or_device_memory(rank, library, room);
  if (rank.device->info().kind == DeviceInfo::Kind::cpu) {
    // Untouched pages of the host all read one page of zeros, which stays in the cache and flatters every figure.
    // Up to seven bytes at the end stay as they are: their page has been touched.
    const Segment all{.count = room / sizeof(std::uint64_t), .rank = rank.seat.rank};
    rank.device->fill(rank.send.get(), {.type = DataType::uint64}, {&all, 1}, *rank.stream);
    rank.device->clear(rank.recv.get(), room, *rank.stream);
  }
  if (plan.checks == 0) return;
  Device* device = rank.device.get();
  const std::size_t piece = std::min(room, device->check_piece().count);
  rank.expected = {device->allocate(piece), [device](void* m) { device->release(m); }};
}

void create_communicators(std::vector<Rank*> ranks, const Library& library, const Plan& plan, const ncclUniqueId& id,
                          AbortSwitch& abort_switch) {
  const NcclFunctions& nccl = library.nccl();
  const bool with_config = nccl.comm_init_rank_config != nullptr && (library.at_least(2, 28, 0) || plan.cta_policy);
  ncclConfig_t config = config_for(library, plan);
  Group group(library);
  for (Rank* rank : ranks) {
    rank->device->use();
    const Seat seat = rank->seat;
    if (with_config) {
      library.check(nccl.comm_init_rank_config(&rank->comm, seat.ranks, id, seat.rank, &config),
                    format("ncclCommInitRankConfig for rank %d of %d", seat.rank, seat.ranks).c_str());
    } else {
      library.check(nccl.comm_init_rank(&rank->comm, seat.ranks, id, seat.rank),
                    format("ncclCommInitRank for rank %d of %d", seat.rank, seat.ranks).c_str());
    }
  }
  group.end();
  for (Rank* rank : ranks) abort_switch.add(rank->comm);
}

void register_buffers(std::vector<Rank*> ranks, const Library& library, Registration registration, Bytes bytes) {
  if (registration == Registration::none) return;
  const NcclFunctions& nccl = library.nccl();
  // The library writes the handles when the group ends: their places must not move until then.
  for (Rank* rank : ranks) {
    rank->registrations.assign(registration == Registration::local ? 2 : 0, nullptr);
    rank->windows.assign(registration == Registration::symmetric ? 2 : 0, nullptr);
  }
  Group group(library);
  for (Rank* rank : ranks) {
    rank->device->use();
    char* const buffers[] = {rank->send.get(), rank->recv.get()};
    for (std::size_t i = 0; i < 2; ++i) {
      if (registration == Registration::symmetric) {
        library.check(
            nccl.comm_window_register(rank->comm, buffers[i], bytes.count, &rank->windows[i], NCCL_WIN_COLL_SYMMETRIC),
            "ncclCommWindowRegister", rank->comm);
      } else {
        library.check(nccl.comm_register(rank->comm, buffers[i], bytes.count, &rank->registrations[i]),
                      "ncclCommRegister", rank->comm);
      }
    }
  }
  group.end();
}

void destroy_communicators(std::vector<Rank*> ranks, const Library& library, AbortSwitch& abort_switch) noexcept {
  const NcclFunctions& nccl = library.nccl();
  std::vector<Rank*> alive;
  for (Rank* rank : ranks)
    if (rank->comm != nullptr && abort_switch.take(rank->comm)) alive.push_back(rank);
  for (Rank* rank : alive) {
    for (void* handle : rank->registrations)
      if (handle != nullptr) nccl.comm_deregister(rank->comm, handle);
    for (ncclWindow_t window : rank->windows)
      if (window != nullptr) nccl.comm_window_deregister(rank->comm, window);
  }
  // Destroying waits for the other ranks in some versions: one group for all of this process.
  const bool grouped = alive.size() > 1 && nccl.group_start() == ncclSuccess;
  for (Rank* rank : alive) nccl.comm_destroy(rank->comm);
  if (grouped) nccl.group_end();
  for (Rank* rank : ranks) rank->comm = nullptr;
}

}  // namespace busbw
