// Calls of one communicator run one after the other, also where they come on different streams, in graphs or both: NCCL
// promises that, and our kernels share their scratch.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "library/gpu/cuda/device.h"

namespace busbw::gpu {

// A place in the line.
struct Turn {
  DeviceStream stream = nullptr;
  std::uint64_t identity = 0;  // of a stream that is not captured; 0: not known
  std::uint64_t capture = 0;   // that the stream is part of; 0: none
};

// before() and after() frame whatever a call or a group puts into the stream of its turn. `others` are the further
// streams of a group: what is in them comes before it, and what comes into them later waits for it, as in NCCL.
//
// One event is the line. Eager calls wait for it and record it. A graph has two nodes for each communicator that it
// captured calls of: one before the first call, which waits for the event, and one behind the last, which records it.
// So launches of graphs and eager calls follow each other in the order in which the host starts them, whatever their
// streams are. Calls within one capture follow each other by edges of the graph. Between two calls there is no node, so
// that a kernel of a graph can still begin while the one before it ends.
class StreamOrder {
 public:
  using Streams = std::span<const DeviceStream>;

  // Without `mixing` (NCCL_GRAPH_MIXING_SUPPORT=0, graphUsageMode below 2) the program promises not to run graphs and
  // eager calls side by side, and graphs get no node of ours.
  StreamOrder(std::shared_ptr<Device> device, bool mixing);
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // Throws a Failure with ncclInvalidUsage, as NCCL does, where only some of the streams are captured, or by two
  // graphs; and with ncclUnhandledCudaError where nothing can be put into one of them now (lost_capture).
  Turn turn(DeviceStream stream, Streams others = {});
  void before(const Turn& turn, Streams others = {});
  void after(const Turn& turn, Streams others = {});
  // All eager calls are done, and all launches of graphs that came before one of them.
  bool idle();

 private:
  // An event that graphs may hold on to: it goes back to the device when the last of them has gone.
  class Line {
   public:
    explicit Line(std::shared_ptr<Device> device) : device_(std::move(device)), event_(device_->create_event()) {}
    ~Line() { device_->retire(event_); }
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;
    DeviceEvent event() const { return event_; }

   private:
    std::shared_ptr<Device> device_;
    DeviceEvent event_;
  };
  struct Capture {
    std::uint64_t id = 0;
    DeviceEvent last = nullptr;  // an event that was recorded in a capture can be used nowhere else
    std::vector<void*> ends;     // the nodes of the last call that whatever follows comes behind
    OutsideRecord record;
  };
  static bool same(std::uint64_t a, std::uint64_t b) { return a != 0 && a == b; }
  Capture* find(std::uint64_t id);
  Capture& begin(std::uint64_t id);
  void wait_in_line(const Turn& turn);
  void wait_in_capture(const Turn& turn);

  std::shared_ptr<Device> device_;
  bool mixing_;
  std::shared_ptr<Line> line_;
  DeviceEvent joint_ = nullptr;  // of the streams of a group
  bool recorded_ = false;        // by an eager call
  std::uint64_t last_identity_ = 0;
  bool graphs_ = false;          // there may be launches of graphs that no eager call has waited for
  std::list<Capture> captures_;  // the newest first
};

}  // namespace busbw::gpu
