// What this library adds to one rank's NCCL communicator: memory that its peers write, and the launch of our kernels.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "library/gpu/check/checker.h"
#include "library/gpu/choose/choice.h"
#include "library/gpu/choose/settings.h"
#include "library/gpu/cuda/device.h"
#include "library/gpu/join/ballots.h"
#include "library/gpu/join/lending.h"
#include "library/gpu/join/room.h"
#include "library/gpu/join/window.h"
#include "library/gpu/run/call.h"
#include "library/gpu/run/norm.h"
#include "library/gpu/run/own_steps.h"
#include "library/gpu/run/staged.h"
#include "library/gpu/run/staged_graphs.h"
#include "library/gpu/run/stream_order.h"
#include "library/gpu/watch/health.h"
#include "library/gpu/watch/watch.h"

namespace busbw::gpu {

// This rank's memory that kernels work with.
class ScratchMemory {
 public:
  // For kernels of so many blocks at most.
  ScratchMemory(std::shared_ptr<Device> device, int ranks, int channels);
  ~ScratchMemory();
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  const Layout& layout() const { return layout_; }
  // The ranks have agreed on no more than so many blocks. Before any rank writes.
  void settle(int channels);
  unsigned char* scratch() const { return scratch_; }
  ChannelState* state() const { return state_; }
  const HostMemory& abort_word() const { return abort_word_; }
  // Lets the words of staged copies say all that a stream may wait for.
  void release_waits(DeviceStream stream) const;

 private:
  std::shared_ptr<Device> device_;
  Layout layout_;
  unsigned char* scratch_ = nullptr;
  ChannelState* state_ = nullptr;
  HostMemory abort_word_;
  HostMemory words_;  // of staged copies, as release_waits() writes them
};

// The peers' memory as this rank's GPU addresses it.
class PeerMemory {
 public:
  explicit PeerMemory(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~PeerMemory() { close(); }
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Of another process, or of this one.
  void open(int rank, const MemoryHandle& handle);
  void reach(int rank, int ordinal, void* address);
  unsigned char* operator[](int rank) const { return address_[rank]; }
  void close();

 private:
  std::shared_ptr<Device> device_;
  unsigned char* address_[max_ranks] = {};
  bool opened_[max_ranks] = {};
};

struct CommunicatorParts {
  int rank = 0;
  int ranks = 0;
  std::shared_ptr<Share> share;
  bool copies_first = false;  // wherever copy engines can do a call
  std::shared_ptr<const Choices> choices;
  std::shared_ptr<ScratchMemory> memory;
  std::unique_ptr<PeerMemory> peers;
  std::shared_ptr<Health> health;
  std::unique_ptr<WatchSeat> seat;
  LogLevel log = LogLevel::none;
  bool slim = false;  // BUSBW_SLIM
  bool lends = true;  // BUSBW_LEND
  // The same on all ranks of the communicator, and on no other one.
  std::uint64_t kin = 0;
  bool mixes_graphs = true;          // StreamOrder
  bool blocking = true;              // on all ranks
  Obstacle staged = Obstacle::none;  // as in Agreement
  std::unique_ptr<Ballots> ballots;  // where calls may go by staged copies; all ranks or none
  // BUSBW_CHECK=1; null where calls are counted only, for this reason.
  bool counts = false;
  std::unique_ptr<Checker> checker;
  std::string why_unchecked;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  explicit Communicator(CommunicatorParts parts);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Depends on nothing but what NCCL wants to be equal on all ranks, and what the ranks have agreed on.
  Choice decide(const Call& call) const { return decide(call, parts_.share->now()); }
  // The same for a call that the program makes now, on this thread.
  Choice decide_next(const Call& call) const;
  // Calls that were decided and do not take place.
  void take_back(int calls) { parts_.share->take_back(calls); }

  // Throws a Failure if the communicator is poisoned, or if the launch fails, which poisons it everywhere.
  void launch(const Call& call, const Choice& choice);
  // The calls of a group one after the other on the first of its streams, the others joined to it (StreamOrder).
  struct Chosen {
    Call call;
    Choice choice;
  };
  void launch(std::span<const Chosen> calls, StreamOrder::Streams streams);
  // All-reduce, residual and RMSNorm in one kernel; false, and nothing done, where it does not fit into the scratch.
  bool launch_norm(const NormCall& call);
  // Of a group with BUSBW_CHECK=1, behind launch() and inside NCCL's group: NCCL is asked for the same calls. False
  // where there is nothing to check.
  bool asks_nccl();
  // When NCCL's group has ended.
  void compare();
  // Around calls of the real NCCL on this communicator, as in StreamOrder. So many of them are collectives, which all
  // ranks make; forget() takes back what NCCL has refused.
  Turn before(DeviceStream stream, int collectives);
  void forget(const Turn& turn, int collectives);
  void after(const Turn& turn, StreamOrder::Streams others = {});

  // For a call of NCCL's that it has taken and may put into the stream later (ncclInProgress).
  void after_later(const Turn& turn, StreamOrder::Streams others = {});
  // NCCL has said that it is done with such calls: from now on the program may destroy their streams.
  void settle();

  // Symmetric windows that all ranks reach, by NCCL's handle. Taking one away waits for what runs.
  void add_window(ncclWindow_t handle, std::unique_ptr<Window> window);
  void remove_window(ncclWindow_t handle);

  const std::shared_ptr<Device>& device() const { return parts_.memory->device(); }
  int rank() const { return parts_.rank; }
  int ranks() const { return parts_.ranks; }
  LogLevel log_level() const { return parts_.log; }
  std::uint64_t kin() const { return parts_.kin; }
  bool blocking() const { return parts_.blocking; }

  // From now on a rank that goes is a loss only where it is missing.
  void attend();

  Health& health() { return *parts_.health; }
  // This rank cannot go on: poisons the communicator everywhere.
  void fail(ncclResult_t code, const std::string& sentence);
  // Ends what runs, here and on the other ranks. From any thread.
  void abort(const std::string& how);
  bool idle_within(std::chrono::milliseconds patience);
  // Lets go of a communicator that was aborted: its memory goes when its eager calls are done, which nobody waits for
  // longer than half a second.
  static void retire(std::shared_ptr<Communicator> ours);
  // Until eager calls are done or the communicator is poisoned, and then for a moment more.
  void drain();

 private:
  Choice decide(const Call& call, const Share::Place& place) const;
  Request request(const Call& call) const;
  bool runs_beside_work(const Call& call) const;
  KernelArguments arguments(const Call& call) const;
  // Null where a call's output is in no window, or overlaps its input.
  const Window* window_of(const Call& call) const;
  const Window* window_with(const void* memory, std::size_t bytes) const;
  // Of an all-reduce: NCCL has other kernels for it then.
  bool reduces_in_windows(const Call& call) const;
  // A call alone is checked at once, those of a group at its end.
  enum class Alone : bool { no, yes };
  void launch(std::span<const Chosen> calls, StreamOrder::Streams streams, Alone alone);
  // So many calls of one turn, which `work` launches: in order with all else of these streams and of this communicator.
  template <class Work>
  void in_turn(StreamOrder::Streams streams, std::size_t calls, Work work);
  void launch_checked(const Turn& turn, std::span<const Chosen> calls, Alone alone);
  void launch_in(const Turn& turn, const Call& call, const Choice& choice);
  void launch_copies(const Call& call, std::uint64_t capture);
  void launch_staged(const Call& call, const Choice& choice, std::uint64_t capture);
  void put_staged(const Call& call, const Choice& choice, std::uint64_t capture,
                  const Lending::Addresses* lent = nullptr);
  std::optional<Lending::Addresses> lent_for(const Call& call, std::uint64_t capture);
  // Where a call of ours is captured.
  void note_capture(const Turn& turn);
  // Eager calls, before they are launched. Throws a Failure where a rank that they need has gone.
  void count(const Turn& turn, std::size_t calls);
  bool idle_now();
  DeviceStream side_stream(std::uint64_t capture, int nth = 0);
  void settle_later();
  void log(const Call& call, const Choice& choice);

  CommunicatorParts parts_;
  const std::unique_ptr<OwnSteps> own_steps_;  // where a choice hangs on ballots
  std::shared_ptr<Lending> lending_;           // where there is their page
  KernelArguments constant_;
  std::shared_ptr<WatchStanding> standing_ = std::make_shared<WatchStanding>();
  mutable std::mutex guard_;
  StreamOrder order_;
  std::vector<std::pair<Turn, std::vector<DeviceStream>>> later_;
  std::map<ncclWindow_t, std::unique_ptr<Window>> windows_;
  // For what copy engines do beside the call's stream.
  std::vector<DeviceStream> side_streams_;
  DeviceEvent fork_ = nullptr;
  DeviceEvent join_ = nullptr;
  class Releaser;
  StagedGraphs staged_graphs_;
  std::unique_ptr<Releaser> releaser_;  // from the first staged copies on
  std::uint64_t held_capture_ = 0;
  std::string logged_;
  std::uint64_t launched_ = 0;  // calls
};

std::string describe(const Choice& choice);

}  // namespace busbw::gpu
