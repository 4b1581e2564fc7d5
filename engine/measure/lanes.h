// What one case does on the ranks of one thread: geometry, addresses and calls of each, rotated through its buffers.
#pragma once

#include <optional>
#include <vector>

#include "engine/collectives/collective.h"
#include "engine/core/result.h"
#include "engine/library_api/library.h"
#include "engine/measure/rank.h"
#include "engine/measure/team.h"
#include "engine/measure/timing.h"

namespace busbw {

// Geometry, addresses and operation of one rank for the case in hand.
struct Lane {
  Rank* rank = nullptr;
  Geometry geometry;
  char* send = nullptr;
  char* recv = nullptr;
};

// Type, operation and root that calls are made with.
struct Selection {
  DataType type = DataType::float32;
  RedOp op = RedOp::sum;
  int root = 0;
};

class Lanes final : public Work {
 public:
  struct Parts {
    const Plan& plan;
    const Collective& collective;
    const Library& library;
    Team& team;
    Watchdog& watchdog;
    int thread = 0;            // in this process
    std::vector<Rank*> ranks;  // of this thread
    Bytes buffer_bytes;        // of each buffer; rotation stays inside
  };
  explicit Lanes(Parts parts) : p_(std::move(parts)) {}

  void select(const Selection& selection) { selection_ = selection; }
  void set_up(Bytes bytes, bool in_place);
  // The place of call 0, counted from the start of the buffers.
  void begin_at(std::size_t place) { first_place_ = place; }

  const Selection& selection() const { return selection_; }
  const std::vector<Lane>& all() const { return lanes_; }
  std::size_t span_bytes() const { return span_bytes_; }
  Geometry geometry(Bytes bytes) const;

  void start(int call) override;
  void complete(const char* what) override;
  void begin_group() override { group_.emplace(p_.library); }
  void end_group() override;
  void abandon_group() noexcept override { group_.reset(); }
  bool groupable() const override;
  EventsOfStreams make_events(std::size_t count) override;
  void begin_capture() override;
  Graphs end_capture() override;

 private:
  void start_lane(const Lane& lane, std::size_t shift, int step);
  ncclRedOp_t make_mulsum(const Rank& rank);
  void wait_for(Rank& rank);

  Parts p_;
  Selection selection_;
  std::vector<Lane> lanes_;
  std::optional<Group> group_;
  std::size_t span_bytes_ = 0;
  std::size_t places_ = 1;       // offsets that calls rotate through
  std::size_t first_place_ = 0;  // of the first call of a batch
};

}  // namespace busbw
