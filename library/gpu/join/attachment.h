// One communicator on its way to being accelerated, step by step (together.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "library/gpu/api/registry.h"
#include "library/gpu/choose/settings.h"
#include "library/gpu/join/agreement.h"
#include "library/gpu/join/exchange.h"
#include "library/gpu/join/room.h"
#include "library/gpu/join/wishes.h"
#include "library/gpu/run/communicator.h"

namespace busbw::gpu {

class Attachment {
 public:
  // Throws a Failure if this rank cannot even take part in the exchange.
  Attachment(ncclComm_t comm, int rank, int ranks, const Settings& settings, const Wishes& wishes);
  ~Attachment();

  // The steps. From the second on each rank takes every one of them, whatever went wrong with it before, so that the
  // ranks' all-gathers match: what went wrong travels in them.
  void prepare();
  Exchange& records() { return *records_; }
  const PeerRecord& own_record() const { return record_; }
  void open_peers();
  void meet_peers(WatchClock::time_point deadline);
  Exchange& verdicts() { return *verdicts_; }
  const JoinVerdict& own_verdict() const { return verdict_; }
  void conclude(Entry& entry);

  // An exchange did not come to its end.
  void lose_records(const std::string& why);
  void lose_verdicts(const std::string& why);
  bool knows_records() const { return records_lost_.empty(); }
  bool knows_verdicts() const { return knows_records() && verdicts_lost_.empty(); }

  std::string describe() const;
  const std::shared_ptr<Share>& share() const { return share_; }

 private:
  void refuse(const std::string& reason);
  void describe_self();
  void make_memory();
  void make_checker();
  void make_ballots();
  void send_ballots();
  void receive_ballots();
  void take_room();
  void freeze();
  std::vector<JoinVerdict> all_verdicts() const;
  void narrow_others();
  void thaw();

  ncclComm_t comm_;
  int rank_;
  int ranks_;
  Settings settings_;
  Wishes wishes_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Share> share_;
  std::unique_ptr<Exchange> records_, verdicts_;
  PeerRecord record_{};
  JoinVerdict verdict_{};
  std::vector<PeerRecord> everyone_;
  std::string records_lost_, verdicts_lost_;
  std::unique_ptr<DescriptorPost> post_;  // of the page of Ballots
  CommunicatorParts parts_;
  // Communicators that are there already, whose calls wait from the first exchange to the second.
  std::vector<std::shared_ptr<Share>> live_;
  bool frozen_ = false;
};

}  // namespace busbw::gpu
