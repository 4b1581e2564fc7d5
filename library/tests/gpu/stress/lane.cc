// Every call gets guards around its receive buffer, cleared memory in it and inputs that no other call has.
#include "library/tests/gpu/stress/lane.h"

#include <cstring>

#include "engine/measure/premul.h"
#include "engine/platform/cuda_driver.h"

namespace busbw::stress {
namespace {

constexpr std::size_t guard = 256;  // bytes; keeps the alignment of what allocators return
constexpr std::size_t widest_element = 8;
constexpr Pattern poison{.type = DataType::uint8, .kind = PatternKind::copy, .ranks = 1, .seed = 0x9015};

std::string describe(const Batch& batch, const Drawn& call, const Collective& collective, int rank, int ranks) {
  std::string how;
  switch (batch.manner) {
    case Manner::eager:
      how = "eager";
      break;
    case Manner::grouped:
      how = format("in a group of %zu", batch.calls.size());
      break;
    case Manner::captured:
      how = format("in graph %d, launched %d times", batch.graph, batch.replays);
      break;
    case Manner::replayed:
      how = format("in graph %d of earlier calls, launched %d times", batch.graph, batch.replays);
      break;
  }
  const Shifts shift = shifts(call, rank);
  return format(
      "call %llu on rank %d of %d: %s of %zu %s%s%s, root %d, %s, communicator %d, stream %d, %s, shifted by "
      "%zu and %zu elements",
      static_cast<unsigned long long>(call.number), rank, ranks, std::string(collective.name()).c_str(), call.count,
      std::string(name(call.type)).c_str(), collective.reduces() ? ", " : "",
      collective.reduces() ? std::string(name(call.op)).c_str() : "", call.root,
      call.in_place ? "in place" : "out of place", call.communicator, call.stream, how.c_str(), shift.send, shift.recv);
}

}  // namespace

Geometry geometry_of(const Collective& collective, DataType type, Seat seat, std::size_t count) {
  // 16 bytes for each rank are a whole number of elements for every collective; all sizes grow with the count.
  Geometry g = collective.geometry({16 * static_cast<std::size_t>(seat.ranks)}, type, seat);
  const std::size_t unit = g.count;
  for (std::size_t* size : {&g.send_elements, &g.recv_elements, &g.in_place_send, &g.in_place_recv, &g.span_elements})
    *size = *size / unit * count;
  g.algorithm_elements *= static_cast<double>(count) / static_cast<double>(unit);
  g.count = count;
  return g;
}

Lane::Lane(Parts parts) : p_(std::move(parts)), comms_(p_.limits.communicators.size()) {
  Device* device = p_.device.get();
  device->use();
  for (int i = 0; i < p_.limits.streams; ++i) streams_.push_back(device->make_stream(false));
  const std::size_t room = 2 * guard + (most_shift + 1) * widest_element + p_.limits.largest;
  slot_bytes_ = room;
  const NcclFunctions& nccl = p_.library.nccl();
  const auto from_device = [&] {
    return DeviceMemory(device->allocate(room), [device](void* m) { device->release(m); });
  };
  const auto from_library = [&]() -> DeviceMemory {
    if (nccl.mem_alloc == nullptr || nccl.mem_free == nullptr) return from_device();
    void* memory = nullptr;
    p_.library.check(nccl.mem_alloc(&memory, room), "ncclMemAlloc");
    return {memory, [free = nccl.mem_free](void* m) { free(m); }};
  };
  // Memory of the library may take faster paths than other memory: half of the calls have one, half the other.
  for (int i = 0; i < (p_.limits.graphs + 1) * calls_per_batch; ++i)
    slots_.push_back(i % 2 == 0 ? Slot{from_device(), from_device()} : Slot{from_library(), from_library()});
  expected_ = from_device();
}

void Lane::renew_stream(int stream) {
  auto& place = streams_[static_cast<std::size_t>(stream)];
  place.reset();
  place = device().make_stream(false);
}

void Lane::register_windows() {
  const NcclFunctions& nccl = p_.library.nccl();
  if (nccl.comm_window_register == nullptr)
    throw Error(ExitCode::bad_arguments, "--windows: the library has no ncclCommWindowRegister");
  device().use();
  // Handles come when the group ends: their places must not move.
  windows_.reserve(comms_.size() * slots_.size());
  for (const ncclComm_t comm : comms_) {
    for (std::size_t i = 0; comm != nullptr && i < slots_.size(); ++i) {
      if (!in_window(i)) continue;
      Window& window = windows_.emplace_back(Window{.comm = comm, .handle = nullptr});
      p_.library.check(
          nccl.comm_window_register(comm, slots_[i].recv.get(), slot_bytes_, &window.handle, NCCL_WIN_COLL_SYMMETRIC),
          "ncclCommWindowRegister", comm);
    }
  }
}

void Lane::deregister_windows() {
  device().use();
  for (const Window& window : windows_)
    if (window.handle != nullptr) p_.library.nccl().comm_window_deregister(window.comm, window.handle);
  windows_.clear();
}

bool Lane::takes_part(const Drawn& call) const {
  return p_.world_rank < p_.limits.communicators[static_cast<std::size_t>(call.communicator)];
}

Lane::Placed Lane::place(const Batch& batch, std::size_t position) {
  const Drawn& call = batch.calls[position];
  const Collective& collective = *p_.collectives[static_cast<std::size_t>(call.kind)];
  const std::size_t width = element_size(call.type);
  const std::size_t slot = static_cast<std::size_t>(batch.graph + 1) * calls_per_batch + position;
  Shifts shift = shifts(call, p_.world_rank);
  if (in_window(slot)) shift.recv = shifts(call, 0).recv;
  Placed placed;
  placed.seat = {p_.world_rank, p_.limits.communicators[static_cast<std::size_t>(call.communicator)]};
  placed.geometry = geometry_of(collective, call.type, placed.seat, call.count);
  placed.pattern = {.type = call.type,
                    .kind = collective.reduces() ? pattern_kind(call.op) : PatternKind::copy,
                    .ranks = placed.seat.ranks,
                    .seed = call.seed};
  placed.slot = &slots_[slot];
  placed.before = guard + shift.recv * width;
  placed.after = placed.before + placed.geometry.span_elements * width;
  placed.recv_base = placed.slot->recv.get() + placed.before;
  placed.recv = placed.recv_base;
  placed.send = placed.slot->send.get() + guard + shift.send * width;
  if (!call.in_place) return placed;
  placed.recv = placed.recv_base + placed.geometry.in_place_recv * width;
  if (batch.graph >= 0) placed.original = placed.send;
  placed.send = placed.recv_base + placed.geometry.in_place_send * width;
  return placed;
}

void Lane::prepare(const Batch& batch, std::size_t position) {
  const Drawn& call = batch.calls[position];
  if (!takes_part(call)) return;
  const Placed placed = place(batch, position);
  const Collective& collective = *p_.collectives[static_cast<std::size_t>(call.kind)];
  Stream& stream = *streams_[static_cast<std::size_t>(call.stream)];
  const Segment around[] = {{.count = placed.before},
                            {.offset = placed.after, .count = guard, .source_offset = placed.after}};
  device().fill(placed.slot->recv.get(), poison, around, stream);
  device().clear(placed.recv_base, placed.geometry.span_elements * element_size(call.type), stream);
  const auto inputs = collective.inputs(placed.geometry, placed.seat, call.root);
  device().fill(placed.original != nullptr ? placed.original : placed.send, placed.pattern, inputs, stream);
}

void Lane::enqueue(const Batch& batch, std::size_t position) {
  const Drawn& call = batch.calls[position];
  if (!takes_part(call)) return;
  const Placed placed = place(batch, position);
  const Collective& collective = *p_.collectives[static_cast<std::size_t>(call.kind)];
  Stream& stream = *streams_[static_cast<std::size_t>(call.stream)];
  const ncclComm_t comm = comms_[static_cast<std::size_t>(call.communicator)];
  const NcclFunctions& nccl = p_.library.nccl();
  device().use();
  const std::function<void(void*, const void*, std::size_t)> copy = [&](void* to, const void* from, std::size_t bytes) {
    device().copy(to, from, bytes, stream);
  };
  if (placed.original != nullptr)
    copy(placed.send, placed.original, placed.geometry.send_elements * element_size(call.type));
  const bool scaled = collective.reduces() && call.op == RedOp::mulsum;
  ncclRedOp_t op = static_cast<ncclRedOp_t>(call.op);
  if (scaled) {
    std::uint64_t scalar = premul_scalar_bits(call.type, placed.seat.rank);
    p_.library.check(nccl.red_op_create_pre_mul_sum(&op, &scalar, static_cast<ncclDataType_t>(call.type),
                                                    ncclScalarHostImmediate, comm),
                     "ncclRedOpCreatePreMulSum", comm);
  }
  const ncclResult_t result = collective.enqueue({.nccl = nccl,
                                                  .copy = copy,
                                                  .send = placed.send,
                                                  .recv = placed.recv,
                                                  .geometry = placed.geometry,
                                                  .type = call.type,
                                                  .op = op,
                                                  .root = call.root,
                                                  .seat = placed.seat,
                                                  .comm = comm,
                                                  .stream = stream.handle()});
  if (scaled) nccl.red_op_destroy(op, comm);
  if (result != ncclSuccess)
    p_.library.check(result, describe(batch, call, collective, placed.seat.rank, placed.seat.ranks).c_str(), comm);
}

void Lane::check(const Batch& batch, std::size_t position) {
  const Drawn& call = batch.calls[position];
  if (!takes_part(call)) return;
  const Placed placed = place(batch, position);
  const Collective& collective = *p_.collectives[static_cast<std::size_t>(call.kind)];
  Stream& stream = *streams_[static_cast<std::size_t>(call.stream)];
  const Geometry& g = placed.geometry;
  const std::string subject = describe(batch, call, collective, placed.seat.rank, placed.seat.ranks);

  device().clear(expected_.get(), g.recv_elements * element_size(call.type), stream);
  const auto result = collective.expected(g, placed.seat, call.root, call.in_place);
  device().fill(expected_.get(), placed.pattern, result, stream);
  compare(placed.recv, g.recv_elements, placed.pattern, stream, "elements of the result are wrong", subject);

  const Segment ahead{.count = placed.before};
  device().fill(expected_.get(), poison, {&ahead, 1}, stream);
  compare(placed.slot->recv.get(), placed.before, poison, stream, "bytes before the receive buffer were overwritten",
          subject);
  const Segment behind{.count = guard, .source_offset = placed.after};
  device().fill(expected_.get(), poison, {&behind, 1}, stream);
  compare(placed.slot->recv.get() + placed.after, guard, poison, stream,
          "bytes behind the receive buffer were overwritten", subject);

  if (call.in_place) return;
  const auto inputs = collective.inputs(g, placed.seat, call.root);
  device().fill(expected_.get(), placed.pattern, inputs, stream);
  compare(placed.send, g.send_elements, placed.pattern, stream, "elements of the send buffer were changed", subject);
}

void Lane::compare(const char* data, std::size_t count, const Pattern& pattern, Stream& stream, const char* what,
                   const std::string& call) {
  const auto wrong_within = [&](std::size_t elements) {
    return elements == 0 ? 0 : device().count_wrong(data, expected_.get(), elements, pattern, stream);
  };
  const std::uint64_t wrong = wrong_within(count);
  if (wrong == 0) return;
  // The first wrong one is the last of the shortest stretch that is not right.
  std::size_t right = 0;
  std::size_t spoiled = count;
  while (spoiled - right > 1) {
    const std::size_t middle = right + (spoiled - right) / 2;
    (wrong_within(middle) == 0 ? right : spoiled) = middle;
  }
  const std::size_t at = right * element_size(pattern.type);
  throw Error(ExitCode::wrong_data, format("%s: %llu of %zu %s; the first is number %zu: %s instead of %s",
                                           call.c_str(), static_cast<unsigned long long>(wrong), count, what, right,
                                           element_text(data + at, pattern.type, stream).c_str(),
                                           element_text(expected_.get() + at, pattern.type, stream).c_str()));
}

std::string Lane::element_text(const char* element, DataType type, Stream& stream) {
  std::uint64_t bits = 0;
  const std::size_t width = element_size(type);
  if (device().info().kind == DeviceInfo::Kind::cpu) {
    std::memcpy(&bits, element, width);
  } else {
    std::string why_not;
    const CudaDriver* driver = cuda_driver(why_not);
    if (driver == nullptr) return "?";
    driver->check(driver->copy_to_host_async(&bits, reinterpret_cast<CudaAddress>(element), width, stream.handle()),
                  "cuMemcpyDtoHAsync", device().info().name);
    driver->check(driver->stream_synchronize(stream.handle()), "cuStreamSynchronize", device().info().name);
  }
  return format("0x%0*llx", static_cast<int>(2 * width), static_cast<unsigned long long>(bits));
}

}  // namespace busbw::stress
