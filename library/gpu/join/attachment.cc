// The steps from a new NCCL communicator to an accelerated one.
#include "library/gpu/join/attachment.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "library/common/failure.h"
#include "library/common/nccl/real_nccl.h"
#include "library/common/process.h"

namespace busbw::gpu {
namespace {

int ordinal_of(ncclComm_t comm) {
  int ordinal = -1;
  if (!real_nccl().cu_device || call_nccl(real_nccl().cu_device, comm, &ordinal) != ncclSuccess) {
    throw Failure(ncclInternalError, "NCCL does not tell which GPU the communicator uses");
  }
  return ordinal;
}

// FNV-1a
std::uint64_t mix(std::uint64_t hash, const std::string& bytes) {
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace

Attachment::Attachment(ncclComm_t comm, int rank, int ranks, const Settings& settings, const Wishes& wishes)
    : comm_(comm),
      rank_(rank),
      ranks_(ranks),
      settings_(settings),
      wishes_(wishes),
      device_(devices().open(ordinal_of(comm))) {
  records_ = std::make_unique<Exchange>(device_, comm_, rank_, ranks_, sizeof(PeerRecord));
  verdicts_ = std::make_unique<Exchange>(device_, comm_, rank_, ranks_, sizeof(JoinVerdict));
}

Attachment::~Attachment() { thaw(); }

void Attachment::refuse(const std::string& reason) {
  record_.able = verdict_.verdict.able = 0;
  put_text(record_.reason, reason);
  put_text(verdict_.verdict.reason, reason);
}

void Attachment::prepare() {
  record_.able = verdict_.verdict.able = 1;
  describe_self();
  take_room();
  try {
    if (const std::string why_not = device_->why_not(); !why_not.empty()) throw Failure(ncclSystemError, why_not);
    if (const std::string why_not = what_bars_ours(); !why_not.empty()) throw Failure(ncclInvalidUsage, why_not);
    make_memory();
  } catch (const std::exception& error) {
    refuse(error.what());
  }
}

void Attachment::describe_self() {
  const ProcessIdentity process = this_process();
  const DeviceFacts& facts = device_->facts();
  std::memcpy(record_.magic, "busbwgpu", sizeof record_.magic);
  record_.protocol = agreement_protocol;
  record_.rank = rank_;
  record_.ranks = ranks_;
  record_.pid = process.pid;
  record_.host = boot_id();
  record_.process = process.token;
  record_.ordinal = facts.ordinal;
  record_.multiprocessors = Room::part_of(facts, settings_.sharers);
  record_.sharers = settings_.sharers;
  record_.policy = wishes_.policy;
  record_.blocking = wishes_.blocking ? 1 : 0;
  record_.queues = settings_.queues;
  std::copy(facts.uuid.begin(), facts.uuid.end(), std::begin(record_.uuid));
  put_text(record_.bus_id, facts.bus_id);
}

void Attachment::take_room() {
  const std::shared_ptr<Room> room = Room::of(device_->facts(), settings_.sharers);
  for (std::shared_ptr<Share>& share : room->members()) {
    if (share->identity() == 0 || share->now().blocks < 2 || int(live_.size()) == most_live) continue;
    record_.live[live_.size()] = share->identity();
    live_.push_back(std::move(share));
  }
  record_.live_count = std::int32_t(live_.size());
  share_ = room->enter(wishes_.ceiling(), wishes_.least_blocks);
  record_.population = room->population();
  record_.channel_limit = share_->now().blocks;
}

void Attachment::make_memory() {
  parts_ = {.rank = rank_,
            .ranks = ranks_,
            .health = std::make_shared<Health>(),
            .log = settings_.log,
            .slim = settings_.slim,
            .lends = settings_.lends,
            .mixes_graphs = wishes_.mixes_graphs};
  parts_.choices = std::make_shared<const Choices>(
      Choices::from_settings(settings_.algorithm, settings_.table, device_->facts().name, settings_.prefer));
  record_.settings = mix(parts_.choices->fingerprint(), settings_.check ? BUSBW_VERSION " checked" : BUSBW_VERSION);
  parts_.memory = std::make_shared<ScratchMemory>(device_, ranks_, std::max(1, share_->now().blocks));
  parts_.peers = std::make_unique<PeerMemory>(device_);
  make_checker();
  make_ballots();
  record_.scratch = device_->share(parts_.memory->scratch());
  record_.scratch_address = reinterpret_cast<std::uintptr_t>(parts_.memory->scratch());
  if (rank_ != 0) return;
  parts_.seat = WatchSeat::listen(ranks_, parts_.health);
  record_.watch_name = parts_.seat->address().name;
  record_.watch_secret = parts_.seat->address().secret;
}

void Attachment::make_checker() {
  if (!settings_.check) return;
  static std::atomic<int> made{0};
  const std::string name =
      text("communicator %d of this process (%d ranks, GPU %s)", ++made, ranks_, device_->facts().bus_id.c_str());
  parts_.counts = true;
  parts_.checker = std::make_unique<Checker>(
      device_, Checker::Place{.comm = comm_, .rank = rank_, .ranks = ranks_, .name = name}, parts_.health);
}

// They are no more than a way to a faster call: without a page the ranks go on alike.
void Attachment::make_ballots() {
  if (!parts_.choices->may_stage(ranks_)) return;
  try {
    post_ = std::make_unique<DescriptorPost>();
    if (rank_ == 0) parts_.ballots = Ballots::make(rank_, ranks_);
    record_.votes = post_->address();
  } catch (const Failure&) {
    post_.reset();
  }
}

void Attachment::send_ballots() {
  if (!parts_.ballots || parts_.staged != Obstacle::none) return;
  try {
    for (const PeerRecord& peer : everyone_) {
      if (peer.rank != 0 && peer.votes.name != 0) post_->send(peer.votes, rank_, parts_.ballots->descriptor());
    }
    parts_.ballots->close_descriptor();
  } catch (const Failure&) {
    parts_.ballots.reset();
  }
}

// Rank 0 has sent it before it came here, or comes here in a moment, as nothing that takes time lies before.
void Attachment::receive_ballots() {
  constexpr std::chrono::seconds patience{2};
  if (rank_ == 0 || !post_ || everyone_.front().votes.name == 0) return;
  DescriptorPost::Letter letter = post_->receive(WatchClock::now() + patience);
  if (letter.rank != 0) return;
  parts_.ballots = Ballots::open(std::move(letter.descriptors.front()), rank_, ranks_);
  parts_.ballots->close_descriptor();
}

void Attachment::lose_records(const std::string& why) {
  records_lost_ = why;
  refuse(why);
}

void Attachment::lose_verdicts(const std::string& why) { verdicts_lost_ = why; }

void Attachment::open_peers() {
  everyone_.resize(std::size_t(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) {
    std::memcpy(&everyone_[std::size_t(rank)], records_->of(rank), sizeof(PeerRecord));
  }
  freeze();
  const Agreement agreement = agree(everyone_);
  if (!agreement.accelerated) return refuse(agreement.reason);
  if (!agreement.blocking && parts_.checker) {
    // NCCL puts its calls into the stream when it likes, and what compares would come before them.
    parts_.checker.reset();
    parts_.why_unchecked = "a non-blocking communicator";
  }
  parts_.blocking = agreement.blocking;
  parts_.staged = agreement.staged;
  std::memcpy(&parts_.kin, &everyone_.front().watch_secret, sizeof parts_.kin);
  try {
    share_->settle(agreement.channel_limit, everyone_.front().watch_name, ranks_);
    parts_.share = share_;
    parts_.copies_first = (wishes_.policy & NCCL_CTA_POLICY_ZERO) != 0;
    parts_.memory->settle(agreement.channel_limit);
    // First, so that nobody waits for a rank that finds its peers out of reach.
    if (rank_ != 0) {
      const PeerRecord& root = everyone_.front();
      parts_.seat =
          WatchSeat::connect({.name = root.watch_name, .secret = root.watch_secret}, rank_, ranks_, parts_.health);
    }
    send_ballots();
    std::vector<std::string> who;
    for (const PeerRecord& peer : everyone_) who.push_back(busbw::gpu::describe(peer));
    parts_.seat->introduce(std::move(who));
    for (const PeerRecord& peer : everyone_) {
      if (peer.rank == rank_) continue;
      if (peer.process == record_.process) {
        parts_.peers->reach(peer.rank, peer.ordinal, reinterpret_cast<void*>(peer.scratch_address));
      } else {
        parts_.peers->open(peer.rank, peer.scratch);
      }
    }
  } catch (const std::exception& error) {
    refuse(error.what());
  }
}

void Attachment::meet_peers(WatchClock::time_point deadline) {
  if (!verdict_.verdict.able) return;
  if (!parts_.seat->wait_until_complete(deadline)) {
    return refuse("not every rank came to the local socket by which they watch over each other");
  }
  if (parts_.staged != Obstacle::none) return;
  try {
    receive_ballots();
    verdict_.ballots = parts_.ballots ? 1 : 0;
  } catch (const Failure&) {
    // Then no rank has them.
  }
}

// Between the two exchanges no call of theirs is counted, so that all ranks know from which one on they are smaller.
void Attachment::freeze() {
  for (std::size_t i = 0; i < live_.size(); ++i) verdict_.calls[i] = live_[i]->freeze();
  verdict_.counted = 1;
  frozen_ = true;
}

void Attachment::thaw() {
  if (!frozen_) return;
  frozen_ = false;
  for (const auto& share : live_) share->thaw();
}

std::vector<JoinVerdict> Attachment::all_verdicts() const {
  std::vector<JoinVerdict> verdicts(static_cast<std::size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) {
    std::memcpy(&verdicts[std::size_t(rank)], verdicts_->of(rank), sizeof(JoinVerdict));
  }
  return verdicts;
}

void Attachment::narrow_others() {
  const std::vector<JoinVerdict> verdicts = all_verdicts();
  std::vector<LiveCommunicator> live;
  for (const auto& share : live_) live.push_back({share->identity(), share->ranks()});
  for (const Narrowing& one : narrow(everyone_, verdicts, live)) {
    for (const auto& share : live_) {
      if (share->identity() == one.identity) share->narrow(one.from, one.limit);
    }
  }
}

void Attachment::conclude(Entry& entry) {
  if (knows_verdicts()) narrow_others();
  thaw();
  if (!knows_records()) {
    entry.reason = records_lost_;
    return;
  }
  if (!knows_verdicts()) {
    // The others may be accelerated already: nothing that this rank could do with them is safe.
    entry.reason = verdicts_lost_;
    if (!verdict_.verdict.able) return;
    entry.health = std::make_shared<Health>();
    entry.health->poison(ncclRemoteError, text("rank %d of a communicator of %d ranks did not learn whether all ranks "
                                               "use busbw's GPU library: %s; set BUSBW_GPU=0 to do without it",
                                               rank_, ranks_, verdicts_lost_.c_str()));
    entry.health->tell();
    return;
  }
  const std::vector<JoinVerdict> joined = all_verdicts();
  std::vector<PeerVerdict> verdicts;
  for (const JoinVerdict& one : joined) verdicts.push_back(one.verdict);
  const Agreement agreement = agree(everyone_, verdicts);
  if (!all_vote(joined)) parts_.ballots.reset();
  if (agreement.accelerated) {
    try {
      entry.ours = std::make_shared<Communicator>(std::move(parts_));
      entry.ours->attend();
      return;
    } catch (const Failure& failure) {
      entry.health = std::make_shared<Health>();
      entry.health->poison(failure.code(), failure.what());
      return;
    }
  }
  entry.reason = agreement.reason;
  // Nobody writes to anybody's memory, but peers may have opened it: then it goes when it is closed everywhere.
  parts_.peers.reset();
  if (parts_.seat && agree(everyone_).accelerated) {
    parts_.seat->leave([memory = std::move(parts_.memory)]() mutable { memory.reset(); }, std::chrono::seconds(30));
  }
}

std::string Attachment::describe() const {
  return text("rank %d of %d on GPU %s", rank_, ranks_, device_->facts().bus_id.c_str());
}

}  // namespace busbw::gpu
