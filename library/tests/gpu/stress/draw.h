// What a stress run does, drawn from a seed alone, so that every rank draws the same calls without a word to the
// others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/data_type.h"

namespace busbw::stress {

// One collective as far as drawing needs to know it.
struct Kind {
  std::string name;
  int weight = 1;
  bool reduces = false;
  bool rooted = false;
  bool in_place = true;        // may be called in place
  bool part_per_rank = false;  // its largest buffer holds `count` elements for every rank
};

struct Limits {
  std::vector<Kind> kinds;
  std::vector<DataType> types;
  std::vector<RedOp> ops;
  std::vector<int> communicators;  // how many ranks each has: the first ones of the job
  int streams = 3;
  int graphs = 3;        // captured batches that are kept and replayed between others; 0 without CUDA graphs
  bool overlap = false;  // communicators may have calls in flight on different streams at once
  // Streams are destroyed and made again behind calls that still run, graphs are launched between eager calls and other
  // graphs on other streams, communicators are unmade and made again.
  bool restless = false;
  bool splits = false;   // the library has ncclCommSplit
  bool aborts = false;   // it has ncclCommAbort
  bool windows = false;  // every other output is in a symmetric window, at the same offset on all ranks
  std::size_t largest = std::size_t{16} << 20;  // bytes of the largest buffer
};

inline constexpr int calls_per_batch = 4;

struct Drawn {
  std::uint64_t number = 0;  // of this call in the run
  int kind = 0;
  int communicator = 0;
  int stream = 0;
  DataType type = DataType::float32;
  RedOp op = RedOp::sum;
  int root = 0;
  std::size_t count = 0;
  bool in_place = false;
  std::uint32_t seed = 0;    // of what the buffers hold
  std::uint32_t layout = 0;  // of where the buffers start
  bool stream_goes = false;  // as soon as the call is enqueued; another stream takes its place
};

// A communicator that makes room for a new one of the same ranks before a batch.
struct Renewal {
  int communicator = -1;    // none
  bool aborts = false;      // ended by ncclCommAbort and not by ncclCommDestroy
  bool splits = false;      // made by ncclCommSplit from communicator 0
  std::vector<int> graphs;  // that go with it
};

enum class Manner {
  eager,     // one call after the other
  grouped,   // all in one ncclGroup
  captured,  // into a CUDA graph, which is launched and kept
  replayed,  // a graph that was kept, with other inputs
};

// Calls that are enqueued without waiting in between, and then checked.
struct Batch {
  Manner manner = Manner::eager;
  int graph = -1;   // which of the kept ones, if any
  int replays = 1;  // launches of the graph
  std::vector<Drawn> calls;
  Renewal renewal;
  // A kept graph with calls on the same communicator, launched between this batch's calls, or launches.
  std::shared_ptr<const Batch> beside;
};

// The communicator that all of a batch's calls are on; -1 where there are several.
int only_communicator(const std::vector<Drawn>& calls);

// By how many elements a rank's buffers are shifted from an address that suits every type.
struct Shifts {
  std::size_t send = 0;
  std::size_t recv = 0;
};
inline constexpr std::size_t most_shift = 15;
Shifts shifts(const Drawn& call, int rank);

class Drawer {
 public:
  Drawer(Limits limits, std::uint64_t seed);
  Batch next();
  std::uint64_t drawn() const { return number_; }

 private:
  std::uint64_t bits();
  std::uint64_t below(std::uint64_t limit);
  bool chance(int percent) { return below(100) < static_cast<std::uint64_t>(percent); }
  Manner draw_manner();
  Batch draw_batch();
  Batch replay(int graph);
  Renewal draw_renewal();
  void disturb(Batch& batch);
  void place(Batch& batch);
  Drawn draw_call();
  std::size_t draw_count(const Kind& kind, DataType type, int ranks);

  Limits limits_;
  std::uint64_t state_;
  std::uint64_t number_ = 0;
  int weights_ = 0;
  std::vector<std::vector<Drawn>> kept_;  // calls of the graphs; empty where none has been captured yet
};

}  // namespace busbw::stress
