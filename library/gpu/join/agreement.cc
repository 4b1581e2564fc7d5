// Decides from the ranks' records whether a communicator is accelerated.
#include "library/gpu/join/agreement.h"

#include <algorithm>
#include <cstring>

#include "library/common/failure.h"
#include "library/gpu/join/room.h"

namespace busbw::gpu {
namespace {

constexpr std::int32_t queues_by_default = 8;  // of CUDA_DEVICE_MAX_CONNECTIONS

template <std::size_t size>
std::string get_text(const char (&from)[size]) {
  return std::string(from, ::strnlen(from, size));
}

std::string obstacle_of_shared_gpus(const std::vector<PeerRecord>& records) {
  for (const PeerRecord& a : records) {
    int sharing = 1;
    for (const PeerRecord& b : records) {
      if (a.rank >= b.rank || std::memcmp(a.uuid, b.uuid, sizeof a.uuid) != 0) continue;
      if (++sharing > std::min(a.sharers, b.sharers)) return text("ranks %d and %d share a GPU", a.rank, b.rank);
    }
  }
  return "";
}

// The first thing that stands against it; records of a stranger (a rank without this library) are not read further.
std::string obstacle(const std::vector<PeerRecord>& records) {
  const int ranks = int(records.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const PeerRecord& record = records[std::size_t(rank)];
    const bool ours = std::memcmp(record.magic, "busbwgpu", sizeof record.magic) == 0 &&
                      record.protocol == agreement_protocol && record.rank == rank && record.ranks == ranks;
    if (!ours) return text("rank %d runs another version of busbw's GPU library, or none", rank);
  }
  for (const PeerRecord& record : records) {
    if (record.host != records[0].host) return "its ranks are on several hosts";
  }
  for (const PeerRecord& record : records) {
    if (!record.able) return text("rank %d: %s", record.rank, get_text(record.reason).c_str());
  }
  for (const PeerRecord& record : records) {
    if (record.settings != records[0].settings) {
      return text(
          "rank %d has another BUSBW_ALGORITHM, BUSBW_TABLE, BUSBW_PREFER, BUSBW_CHECK or build of this library than "
          "rank 0",
          record.rank);
    }
  }
  for (const PeerRecord& record : records) {
    if (record.policy != records[0].policy) return text("rank %d has another CTA policy than rank 0", record.rank);
  }
  if (std::string why = obstacle_of_shared_gpus(records); !why.empty()) return why;
  for (const PeerRecord& record : records) {
    if (record.channel_limit < 1) {
      return text("rank %d: the kernels of other communicators may need all of its GPU", record.rank);
    }
  }
  return "";
}

Obstacle obstacle_to_staged_copies(const std::vector<PeerRecord>& records) {
  for (const PeerRecord& a : records) {
    // A thread that fills one rank's queue with what waits for another rank may never come to that one.
    for (const PeerRecord& b : records) {
      if (a.rank < b.rank && a.process == b.process) return Obstacle::shared_process;
    }
  }
  for (const PeerRecord& record : records) {
    // In a queue with others, a stream that waits for a word holds up what they put there behind it.
    if (record.queues != 0 && record.queues < queues_by_default) return Obstacle::few_queues;
  }
  return Obstacle::none;
}

}  // namespace

Agreement agree(const std::vector<PeerRecord>& records) {
  Agreement agreement{.reason = obstacle(records)};
  agreement.accelerated = agreement.reason.empty();
  if (!agreement.accelerated) return agreement;
  const auto least = std::min_element(records.begin(), records.end(), [](const PeerRecord& a, const PeerRecord& b) {
    return a.channel_limit < b.channel_limit;
  });
  agreement.channel_limit = least->channel_limit;
  agreement.blocking = std::all_of(records.begin(), records.end(), [](const PeerRecord& one) { return one.blocking; });
  agreement.staged = obstacle_to_staged_copies(records);
  return agreement;
}

Agreement agree(const std::vector<PeerRecord>& records, const std::vector<PeerVerdict>& verdicts) {
  Agreement agreement = agree(records);
  for (std::size_t rank = 0; agreement.accelerated && rank < verdicts.size(); ++rank) {
    if (verdicts[rank].able) continue;
    agreement.accelerated = false;
    agreement.reason = text("rank %zu: %s", rank, get_text(verdicts[rank].reason).c_str());
  }
  return agreement;
}

bool all_vote(const std::vector<JoinVerdict>& verdicts) {
  return std::all_of(verdicts.begin(), verdicts.end(), [](const JoinVerdict& one) { return one.ballots != 0; });
}

std::vector<Narrowing> narrow(const std::vector<PeerRecord>& records, const std::vector<JoinVerdict>& verdicts,
                              const std::vector<LiveCommunicator>& live) {
  std::vector<Narrowing> all;
  const bool complete = std::all_of(verdicts.begin(), verdicts.end(), [](const auto& one) { return one.counted != 0; });
  if (!complete) return all;
  for (const LiveCommunicator& one : live) {
    Narrowing narrowing{.identity = one.identity, .from = 0, .limit = max_channels};
    int found = 0;
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      const PeerRecord& record = records[rank];
      const auto end = record.live + std::clamp(record.live_count, 0, most_live);
      const auto at = std::find(record.live, end, one.identity);
      if (at == end) continue;
      ++found;
      narrowing.from = std::max(narrowing.from, verdicts[rank].calls[at - record.live]);
      narrowing.limit = std::min(narrowing.limit, fair_share(record.multiprocessors, record.population));
    }
    if (found == one.ranks) all.push_back(narrowing);
  }
  return all;
}

std::string describe(const PeerRecord& record) {
  return text("pid %d on GPU %s", record.pid, get_text(record.bus_id).c_str());
}

}  // namespace busbw::gpu
