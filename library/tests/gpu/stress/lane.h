// One rank of the stress run: its device, streams, communicators and buffers, and the check of what a call left there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/collectives/collective.h"
#include "engine/library_api/library.h"
#include "engine/measure/rank.h"
#include "engine/platform/device.h"
#include "library/tests/gpu/stress/draw.h"

namespace busbw::stress {

// Sizes for any count, where Collective::geometry rounds those of gather-like collectives to 16 bytes a rank.
Geometry geometry_of(const Collective& collective, DataType type, Seat seat, std::size_t count);

class Lane {
 public:
  struct Parts {
    const Library& library;
    const std::vector<std::unique_ptr<Collective>>& collectives;  // by Drawn::kind
    const Limits& limits;
    int world_rank = 0;
    std::unique_ptr<Device> device;
  };
  explicit Lane(Parts parts);

  Device& device() { return *p_.device; }
  int world_rank() const { return p_.world_rank; }
  std::vector<std::unique_ptr<Stream>>& streams() { return streams_; }
  // The stream is destroyed, whatever is still in it, and another one takes its place.
  void renew_stream(int stream);
  std::vector<ncclComm_t>& comms() { return comms_; }  // null where this rank is no member

  bool takes_part(const Drawn& call) const;

  // Inside a group, after the communicators were made.
  void register_windows();
  void deregister_windows();

  // The four steps of a batch. `position` is the call's place in it: every place, and every kept graph, has buffers of
  // its own.
  void prepare(const Batch& batch, std::size_t position);
  void enqueue(const Batch& batch, std::size_t position);
  // Throws Error(wrong_data) with a sentence that says which element of which call on which rank is wrong.
  void check(const Batch& batch, std::size_t position);

 private:
  struct Slot {
    DeviceMemory send;
    DeviceMemory recv;
  };
  // Where one call finds its buffers on this rank.
  struct Placed {
    Geometry geometry;
    Seat seat;
    Pattern pattern;
    Slot* slot = nullptr;
    std::size_t before = 0;     // bytes of the receive slot that belong to nobody, from its start
    std::size_t after = 0;      // where those behind the buffer begin
    char* recv_base = nullptr;  // of all ranks' parts, where the buffer in place is a part of it
    char* send = nullptr;
    char* recv = nullptr;
    char* original = nullptr;  // in place in a graph: the input, which each launch copies first
  };
  struct Window {
    ncclComm_t comm;
    ncclWindow_t handle;
  };
  bool in_window(std::size_t slot) const { return p_.limits.windows && slot % 2 == 1; }
  Placed place(const Batch& batch, std::size_t position);
  void compare(const char* data, std::size_t count, const Pattern& pattern, Stream& stream, const char* what,
               const std::string& call);
  std::string element_text(const char* element, DataType type, Stream& stream);

  Parts p_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<ncclComm_t> comms_;
  std::vector<Slot> slots_;
  std::size_t slot_bytes_ = 0;
  std::vector<Window> windows_;
  DeviceMemory expected_;
};

}  // namespace busbw::stress
