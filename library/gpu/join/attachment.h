// One communicator on its way to being accelerated, step by step (together.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "library/gpu/api/registry.h"
#include "library/gpu/choose/settings.h"
#include "library/gpu/join/agreement.h"
#include "library/gpu/join/exchange.h"
#include "library/gpu/run/communicator.h"

namespace busbw::gpu {

class Attachment {
 public:
  // Throws a Failure if this rank cannot even take part in the exchange.
  Attachment(ncclComm_t comm, int rank, int ranks, const Settings& settings);

  // The steps. From the second on each rank takes every one of them, whatever went wrong with it before, so that the
  // ranks' all-gathers match: what went wrong travels in them.
  void prepare();
  Exchange& records() { return *records_; }
  const PeerRecord& own_record() const { return record_; }
  void open_peers();
  void meet_peers(WatchClock::time_point deadline);
  Exchange& verdicts() { return *verdicts_; }
  const PeerVerdict& own_verdict() const { return verdict_; }
  Entry conclude();

  // An exchange did not come to its end.
  void lose_records(const std::string& why);
  void lose_verdicts(const std::string& why);
  bool knows_records() const { return records_lost_.empty(); }
  bool knows_verdicts() const { return knows_records() && verdicts_lost_.empty(); }

  std::string describe() const;

 private:
  void refuse(const std::string& reason);
  void describe_self();
  void make_memory();

  ncclComm_t comm_;
  int rank_;
  int ranks_;
  Settings settings_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Exchange> records_, verdicts_;
  PeerRecord record_{};
  PeerVerdict verdict_{};
  std::vector<PeerRecord> everyone_;
  std::string records_lost_, verdicts_lost_;
  CommunicatorParts parts_;
};

}  // namespace busbw::gpu
