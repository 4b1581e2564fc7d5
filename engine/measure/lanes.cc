// Calls of the library, and waiting for them.
#include "engine/measure/lanes.h"

#include <sched.h>

#include <algorithm>

#include "engine/measure/premul.h"

namespace busbw {

Geometry Lanes::geometry(Bytes bytes) const {
  return p_.collective.geometry(bytes, selection_.type, p_.ranks.front()->seat);
}

void Lanes::set_up(Bytes bytes, bool in_place) {
  const std::size_t width = element_size(selection_.type);
  const std::size_t misalignment = p_.plan.unaligned_elements * width;
  lanes_.clear();
  for (Rank* rank : p_.ranks) {
    Lane lane{.rank = rank, .geometry = p_.collective.geometry(bytes, selection_.type, rank->seat)};
    char* const recv_base = rank->recv.get() + misalignment;
    lane.send = in_place ? recv_base + lane.geometry.in_place_send * width : rank->send.get() + misalignment;
    lane.recv = in_place ? recv_base + lane.geometry.in_place_recv * width : recv_base;
    lanes_.push_back(lane);
  }
  // Offsets change from call to call so that caches do not flatter small sizes.
  span_bytes_ = lanes_.front().geometry.span_elements * width;
  places_ = span_bytes_ > 0 ? std::max<std::size_t>(1, p_.buffer_bytes.count / span_bytes_) : 1;
  first_place_ = 0;
  if (span_bytes_ > p_.buffer_bytes.count)
    throw Error(ExitCode::bad_arguments, format("a rank needs buffers of %zu bytes but -e allows %zu; raise -e",
                                                span_bytes_, p_.buffer_bytes.count));
}

ncclRedOp_t Lanes::make_mulsum(const Rank& rank) {
  std::uint64_t scalar = premul_scalar_bits(selection_.type, rank.seat.rank);
  ncclRedOp_t op = ncclSum;
  p_.library.check(p_.library.nccl().red_op_create_pre_mul_sum(
                       &op, &scalar, static_cast<ncclDataType_t>(selection_.type), ncclScalarHostImmediate, rank.comm),
                   "ncclRedOpCreatePreMulSum", rank.comm);
  return op;
}

void Lanes::start_lane(const Lane& lane, std::size_t shift, int step) {
  Rank& rank = *lane.rank;
  const NcclFunctions& nccl = p_.library.nccl();
  const bool mulsum = selection_.op == RedOp::mulsum && p_.collective.reduces();
  const ncclRedOp_t op = mulsum ? make_mulsum(rank) : static_cast<ncclRedOp_t>(selection_.op);
  const ncclResult_t result = p_.collective.enqueue({.nccl = nccl,
                                                     .copy = rank.copy,
                                                     .send = lane.send + shift,
                                                     .recv = lane.recv + shift,
                                                     .geometry = lane.geometry,
                                                     .type = selection_.type,
                                                     .op = op,
                                                     .root = selection_.root,
                                                     .seat = rank.seat,
                                                     .comm = rank.comm,
                                                     .stream = rank.stream->handle(),
                                                     .step = step});
  if (mulsum) nccl.red_op_destroy(op, rank.comm);
  if (result != ncclSuccess) {
    // A peer's failure explains more than the library's error that follows from it.
    p_.team.check();
    p_.library.check(result, format("%s on rank %d", p_.collective.program().c_str(), rank.world_rank).c_str(),
                     rank.comm);
  }
}

void Lanes::start(int call) {
  const std::size_t shift = span_bytes_ * ((first_place_ + static_cast<std::size_t>(call)) % places_);
  const int steps = p_.collective.steps(lanes_.front().rank->seat.ranks);
  for (int step = 0; step < steps; ++step) {
    std::optional<Group> group;
    if (lanes_.size() > 1) group.emplace(p_.library);
    for (const Lane& lane : lanes_) start_lane(lane, shift, step);
    if (group) group->end();
  }
}

void Lanes::wait_for(Rank& rank) {
  while (!rank.stream->finished()) {
    p_.team.check();
    if (const auto get_error = p_.library.nccl().comm_get_async_error; get_error != nullptr) {
      ncclResult_t error = ncclSuccess;
      p_.library.check(get_error(rank.comm, &error), "ncclCommGetAsyncError", rank.comm);
      p_.library.check(error, "an operation in flight", rank.comm);
    }
    sched_yield();
  }
}

void Lanes::complete(const char* what) {
  for (const Lane& lane : lanes_) {
    if (lane.rank->stream->finished()) continue;
    const Watchdog::Wait wait(p_.watchdog, p_.thread, what);
    wait_for(*lane.rank);
  }
}

void Lanes::end_group() {
  group_->end();
  group_.reset();
}

bool Lanes::groupable() const { return p_.collective.steps(p_.ranks.front()->seat.ranks) == 1; }

EventsOfStreams Lanes::make_events(std::size_t count) {
  EventsOfStreams events;
  for (const Lane& lane : lanes_) events.push_back(lane.rank->stream->make_events(count));
  return events;
}

void Lanes::begin_capture() {
  for (const Lane& lane : lanes_) {
    lane.rank->device->use();
    lane.rank->stream->begin_capture();
  }
}

Graphs Lanes::end_capture() {
  Graphs graphs;
  for (const Lane& lane : lanes_) {
    lane.rank->device->use();
    graphs.push_back(lane.rank->stream->end_capture());
  }
  return graphs;
}

}  // namespace busbw
