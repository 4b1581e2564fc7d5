// What CUDA graphs hold of the program's calls, and the counting of these calls at each launch of a graph
// (docs/decisions/0071): on the host, beside the launch; nothing is added to a graph.
#pragma once

#include <cstddef>
#include <vector>

#include "library/record/communicators.h"

namespace busbw::record {

// A call that a graph has captured.
struct Captured {
  Rank* rank = nullptr;
  Given given;
};

// More calls of one graph are not counted at its launches.
constexpr std::size_t most_of_a_graph = 1 << 16;

// The program's graph took this call.
void captured(void* graph, const Captured& call);

// The functions below are told what the program did with its graphs. Handles of the driver and of the runtime are the
// same.
void graph_was_cloned(const void* clone, const void* from);
// A node of `graph` runs all of `child`.
void graph_took_graph(const void* graph, const void* child);
void graph_took_executable(const void* graph, const void* executable);
void graph_ended(const void* graph);
// `executable` was made of `graph`, or updated with it.
void executable_is(const void* executable, const void* graph);
void executable_ended(const void* executable);

// Around the launch of an executable graph: writes its calls down before, and that they came back after.
class Launch {
 public:
  Launch(const void* executable, const void* stream);
  void end(bool failed);

 private:
  void mark(const std::vector<Captured>& calls, const void* stream);

  Recording* recording_ = nullptr;
  // Of the first of its communicators.
  Mark mark_;
};

// Puts us between the program and the functions of CUDA that launch graphs, in all objects that are loaded by now; is
// cheap where nothing was loaded since. Does nothing where BUSBW_RECORD_GRAPHS=0 or without a driver.
void hook_graphs();
// Whether launches are seen.
bool graphs_are_hooked();

// `number` counts the calls of a communicator; now and then the driver is asked all the same.
inline bool may_be_captured(std::uint64_t number) {
  return captures.open.load(std::memory_order_relaxed) != 0 || number % 64 == 0 ||
         !captures.are_told.load(std::memory_order_relaxed) || captures.were_hidden.load(std::memory_order_relaxed);
}

}  // namespace busbw::record
