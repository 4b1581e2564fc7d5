// What the ranks of a communicator find out about their calls while they run, and go by from the same call on: a page
// of memory that all of them have.
//
// A call's number is the same on all ranks, and the hosts of ranks may be any number of calls apart. So before some
// calls (number 16, 64, 256 and so on) all votes since the one before are counted by the first rank that comes there:
// what it writes down holds for all ranks, also where votes of slower ones were not there yet. Nobody waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "library/common/descriptor.h"
#include "library/gpu/join/consent.h"
#include "library/gpu/join/trial.h"
#include "library/gpu/kernels/layout.h"

namespace busbw::gpu {

class Ballots {
 public:
  // Votes are counted before call 16 * 4^n.
  static constexpr int counts = 24;
  static constexpr std::uint64_t first_count = 16;

  // A page of its own, or the one of another rank. Both throw a Failure.
  static std::unique_ptr<Ballots> make(int rank, int ranks);
  static std::unique_ptr<Ballots> open(Descriptor page, int rank, int ranks);
  ~Ballots();
  Ballots(const Ballots&) = delete;
  Ballots& operator=(const Ballots&) = delete;

  // For the others to open.
  const Descriptor& descriptor() const { return descriptor_; }
  // The page is held without it.
  void close_descriptor() { descriptor_ = Descriptor(); }

  // Whether this rank has voted less than twice since the last count before `call`: two calls tell enough.
  bool wants_vote(std::uint64_t call) const;
  void vote(std::uint64_t call, bool yes);
  // What holds for call number `call`: yes if all ranks voted and none said no; as before where votes are missing.
  bool decided(std::uint64_t call) const;

  // Of what was voted for, in the same page.
  Trial& trial() { return trial_; }
  // What ranks agree on for each call, in the same page.
  Consent& consent() { return consent_; }

 private:
  enum Word : std::uint32_t { nothing, no, yes };
  struct Page;

  Ballots(Descriptor descriptor, Page* page, int rank, int ranks);
  static Page* mapped(const Descriptor& page);
  // Of the next count from `call` on; `counts` where there is none.
  static int next_count(std::uint64_t call);
  bool result(int count) const;

  Descriptor descriptor_;
  Page* page_;
  int rank_;
  int ranks_;
  std::atomic<int> cast_[counts] = {};
  Trial trial_;
  Consent consent_;
};

}  // namespace busbw::gpu
