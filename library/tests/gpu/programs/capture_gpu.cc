// What a program may do to a capture and its graph besides calling NCCL: other dependencies for a stream, graphs as
// parts of graphs, copies of graphs. NCCL alone keeps the order of its calls; busbw's GPU library must as well.
#include <thread>

#include "library/tests/gpu/programs/main.h"
#include "library/tests/gpu/programs/slots.h"

namespace programs {
namespace {

// What comes into a captured stream next comes behind these.
std::vector<Node> behind(Rank& r, Stream stream, Graph* graph = nullptr) {
  if (!r.cuda.capture_info) throw Skip("this driver tells nothing about captures");
  int status = 0;
  unsigned long long id = 0;
  Graph into = nullptr;
  const Node* nodes = nullptr;
  const void* edges = nullptr;
  std::size_t count = 0;
  int result = r.cuda.capture_info(stream, &status, &id, &into, &nodes, &count);
  // Refused where a kernel may begin before the one in front of it has ended.
  if (result != cuda_success && r.cuda.capture_edges)
    result = r.cuda.capture_edges(stream, &status, &id, &into, &nodes, &edges, &count);
  r.cuda.check(result, "cuStreamGetCaptureInfo");
  if (graph) *graph = into;
  return {nodes, nodes + count};
}

void set_behind(Rank& r, Stream stream, std::vector<Node> nodes) {
  if (!r.cuda.set_dependencies) throw Skip("this driver has no cuStreamUpdateCaptureDependencies");
  r.cuda.check(r.cuda.set_dependencies(stream, nodes.data(), nodes.size(), dependencies_set),
               "cuStreamUpdateCaptureDependencies");
}

// NCCL connects at the first call of a kind, which CUDA refuses in a capture.
std::vector<Slot> connected_slots(Rank& r, ncclComm_t comm, int first, int count) {
  const auto slots = slots_of(r, first, count);
  const Stream own = r.stream();
  for (const Slot& slot : slots) call(r, comm, slot, own);
  r.wait(own);
  check_and_clear(r, slots, "an eager call");
  settle(r);
  return slots;
}

// The graph's launches and eager calls on another stream, by turns.
void try_graph(Rank& r, const Captured& graph, Stream one, const std::vector<Slot>& in_graph) {
  const auto eager = slots_of(r, 9, 1);
  const Stream two = r.stream();
  again_and_again(r, {one, two}, {in_graph, eager}, [&](int) {
    launch(r, graph, one);
    call(r, eager[0], two);
  });
}

// The second call has nothing of the program's in front of it: only NCCL knows of the first one.
void dependencies_are_taken_away(Rank& r, bool with_work_before) {
  const auto slots = connected_slots(r, r.comm(), 0, 3);
  const Address memory = r.buffer();
  const Stream one = r.stream();
  if (!r.cuda.set_dependencies) throw Skip("this driver has no cuStreamUpdateCaptureDependencies");
  const Captured graph = capture(r, one, [&] {
    r.fill(memory, 5, 256, one);
    const std::vector<Node> start = behind(r, one);
    for (const Slot& slot : slots) {
      if (&slot != &slots.front()) set_behind(r, one, with_work_before ? start : std::vector<Node>{});
      call(r, slot, one);
    }
  });
  try_graph(r, graph, one, slots);
  destroy(r, graph);
}

// A stream with the handle of one that was part of the capture before, behind the beginning only.
void handle_comes_again_in_a_capture(Rank& r) {
  const auto slots = connected_slots(r, r.comm(), 0, 2);
  const Stream one = r.stream();
  bool again = false;
  const Captured graph = capture(r, one, [&] {
    Event begin = nullptr;
    r.cuda.check(r.cuda.event_create(&begin, 2), "cuEventCreate");
    r.cuda.check(r.cuda.event_record(begin, one), "cuEventRecord");
    Stream before = nullptr;
    for (const Slot& slot : slots) {
      const Stream beside = r.stream();
      again = again || beside == before;
      before = beside;
      r.cuda.check(r.cuda.stream_wait(beside, begin, 0), "cuStreamWaitEvent");
      call(r, slot, beside);
      join(r, one, beside);
      r.cuda.check(r.cuda.stream_destroy(beside), "cuStreamDestroy");
    }
    r.cuda.check(r.cuda.event_destroy(begin), "cuEventDestroy");
  });
  try_graph(r, graph, one, slots);
  destroy(r, graph);
  if (!again) throw Skip("no stream had the handle of a destroyed one");
}

// Two captures into one graph, the second behind the first.
void captured_into_one_graph(Rank& r) {
  if (!r.cuda.capture_to_graph || !r.cuda.graph_create) throw Skip("this driver captures into no graph that is there");
  const auto slots = connected_slots(r, r.comm(), 0, 3);
  const Stream one = r.stream();
  Captured graph;
  r.cuda.check(r.cuda.graph_create(&graph.graph, 0), "cuGraphCreate");
  std::vector<Node> ends;
  for (const Slot& slot : slots) {
    r.cuda.check(r.cuda.capture_to_graph(one, graph.graph, ends.data(), nullptr, ends.size(), capture_thread),
                 "cuStreamBeginCaptureToGraph");
    call(r, slot, one);
    ends = behind(r, one);
    Graph same = nullptr;
    r.cuda.check(r.cuda.end_capture(one, &same), "cuStreamEndCapture");
  }
  r.cuda.check(r.cuda.instantiate(&graph.exec, graph.graph, 0), "cuGraphInstantiate");
  try_graph(r, graph, one, slots);
  destroy(r, graph);
}

// As a part of another graph, once or several times one after the other.
void graph_as_a_part(Rank& r, int times) {
  if (!r.cuda.add_child || !r.cuda.graph_create) throw Skip("this driver has no cuGraphAddChildGraphNode");
  const auto slots = connected_slots(r, r.comm(), 0, 2);
  const Stream one = r.stream();
  const Captured part = capture_calls(r, one, slots);
  Captured whole;
  r.cuda.check(r.cuda.graph_create(&whole.graph, 0), "cuGraphCreate");
  Node last = nullptr;
  for (int i = 0; i < times; ++i) {
    Node node = nullptr;
    r.cuda.check(r.cuda.add_child(&node, whole.graph, &last, last ? 1 : 0, part.graph), "cuGraphAddChildGraphNode");
    last = node;
  }
  // The parts are copies.
  destroy(r, part);
  r.cuda.check(r.cuda.instantiate(&whole.exec, whole.graph, 0), "cuGraphInstantiate");
  try_graph(r, whole, one, slots);
  destroy(r, whole);
}

void copy_of_a_graph(Rank& r) {
  if (!r.cuda.graph_clone) throw Skip("this driver has no cuGraphClone");
  const auto slots = connected_slots(r, r.comm(), 0, 2);
  const Stream one = r.stream();
  const Captured original = capture_calls(r, one, slots);
  Captured copy;
  r.cuda.check(r.cuda.graph_clone(&copy.graph, original.graph), "cuGraphClone");
  destroy(r, original);
  r.cuda.check(r.cuda.instantiate(&copy.exec, copy.graph, 0), "cuGraphInstantiate");
  try_graph(r, copy, one, slots);
  destroy(r, copy);
}

void one_graph_twice_at_once(Rank& r) {
  const auto slots = connected_slots(r, r.comm(), 0, 2);
  const Stream one = r.stream();
  const Stream two = r.stream();
  const Captured first = capture_calls(r, one, slots);
  Captured second{first.graph, nullptr};
  r.cuda.check(r.cuda.instantiate(&second.exec, first.graph, 0), "cuGraphInstantiate");
  again_and_again(r, {one, two}, {slots}, [&](int i) {
    launch(r, i % 2 == 0 ? first : second, one);
    launch(r, i % 2 == 0 ? second : first, two);
  });
  r.cuda.check(r.cuda.exec_destroy(second.exec), "cuGraphExecDestroy");
  destroy(r, first);
}

// Begun, filled and ended by three threads.
void ended_by_another_thread(Rank& r) {
  const auto slots = connected_slots(r, r.comm(), 0, 2);
  const Stream one = r.stream();
  Captured graph;
  std::string failure;
  const auto on_a_thread = [&](auto work) {
    std::thread([&] {
      try {
        r.use();
        work();
      } catch (const std::exception& error) {
        failure = error.what();
      }
    }).join();
    if (!failure.empty()) throw std::runtime_error(failure);
  };
  r.cuda.check(r.cuda.begin_capture(one, capture_relaxed), "cuStreamBeginCapture");
  on_a_thread([&] { call(r, slots[0], one); });
  call(r, slots[1], one);
  on_a_thread([&] { graph = end_capture(r, one); });
  try_graph(r, graph, one, slots);
  destroy(r, graph);
}

// An executable graph becomes one of another communicator; both communicators go on beside it.
void updated_to_another_communicator(Rank& r) {
  if (!r.cuda.graph_update) throw Skip("this driver updates no graphs");
  const ncclComm_t other = r.new_comm();
  connected_slots(r, other, 0, 4);
  const auto slots = connected_slots(r, r.comm(), 0, 1);
  const auto eager = slots_of(r, 3, 2);
  const Stream one = r.stream();
  const Stream two = r.stream();
  const Captured first = capture_calls(r, one, slots);
  const Captured second = capture(r, one, [&] { call(r, other, slots[0], one); });
  launch(r, first, one);
  unsigned char info[128] = {};
  if (r.cuda.graph_update(first.exec, second.graph, info) != cuda_success) throw Skip("this driver refuses the update");
  destroy(r, second);
  again_and_again(r, {one, two}, {slots, eager}, [&](int) {
    launch(r, first, one);
    call(r, other, eager[0], two);
    call(r, eager[1], two);
  });
  destroy(r, first);
  settle(r);
  r.nccl.check(r.nccl.destroy(other), "ncclCommDestroy");
}

void graph_that_is_never_launched(Rank& r) {
  const auto slots = connected_slots(r, r.comm(), 0, 2);
  const auto eager = slots_of(r, 4, 2);
  const Stream one = r.stream();
  const Stream two = r.stream();
  again_and_again(r, {one, two}, {eager}, [&](int i) {
    r.cuda.check(r.cuda.begin_capture(one, capture_thread), "cuStreamBeginCapture");
    for (const Slot& slot : slots) call(r, slot, one);
    Graph graph = nullptr;
    r.cuda.check(r.cuda.end_capture(one, &graph), "cuStreamEndCapture");
    r.cuda.check(r.cuda.graph_destroy(graph), "cuGraphDestroy");
    call(r, eager[0], i % 2 == 0 ? one : two);
    call(r, eager[1], i % 2 == 0 ? two : one);
  });
}

std::vector<Case> all_cases(int) {
  return {
      {"dependencies-are-taken-away", [](Rank& r) { dependencies_are_taken_away(r, false); }},
      {"dependencies-are-those-of-the-beginning", [](Rank& r) { dependencies_are_taken_away(r, true); }},
      {"handle-comes-again-in-a-capture", handle_comes_again_in_a_capture},
      {"captured-into-one-graph", captured_into_one_graph},
      {"graph-as-a-part", [](Rank& r) { graph_as_a_part(r, 1); }},
      {"graph-as-three-parts", [](Rank& r) { graph_as_a_part(r, 3); }},
      {"copy-of-a-graph", copy_of_a_graph},
      {"one-graph-twice-at-once", one_graph_twice_at_once},
      {"ended-by-another-thread", ended_by_another_thread},
      {"updated-to-another-communicator", updated_to_another_communicator},
      {"graph-that-is-never-launched", graph_that_is_never_launched},
  };
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) { return programs::main_of(argc, argv, programs::all_cases); }
