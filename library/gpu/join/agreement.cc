// Decides from the ranks' records whether a communicator is accelerated.
#include "library/gpu/join/agreement.h"

#include <algorithm>
#include <cstring>

#include "library/common/failure.h"

namespace busbw::gpu {
namespace {

template <std::size_t size>
std::string get_text(const char (&from)[size]) {
  return std::string(from, ::strnlen(from, size));
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
      return text("rank %d has another BUSBW_ALGORITHM, BUSBW_TABLE or build of this library than rank 0", record.rank);
    }
  }
  for (const PeerRecord& a : records) {
    for (const PeerRecord& b : records) {
      if (a.rank < b.rank && std::memcmp(a.uuid, b.uuid, sizeof a.uuid) == 0) {
        return text("ranks %d and %d share a GPU", a.rank, b.rank);
      }
    }
  }
  return "";
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

std::string describe(const PeerRecord& record) {
  return text("pid %d on GPU %s", record.pid, get_text(record.bus_id).c_str());
}

}  // namespace busbw::gpu
