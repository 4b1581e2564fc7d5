// What a program may do with streams, groups, captures and graphs of a communicator, each tried by threads and by
// processes on 2 and 4 GPUs. NCCL alone passes; busbw's GPU library in front of it must pass the same.
#include "library/tests/gpu/programs/captures_and_graphs.h"
#include "library/tests/gpu/programs/main.h"
#include "library/tests/gpu/programs/random_calls.h"
#include "library/tests/gpu/programs/streams_and_groups.h"
namespace programs {
namespace {

std::vector<Case> all_cases(int random_epochs) {
  std::vector<Case> cases{
      {"stream-handle-comes-again", stream_handle_comes_again},
      {"default-streams", default_streams},
      {"per-thread-stream-of-two-threads", per_thread_stream_of_two_threads},
      {"simulated-group", [](Rank& r) { simulate(r, false); }},
      {"simulated-group-nested", [](Rank& r) { simulate(r, true); }},
      {"group-joins-streams", [](Rank& r) { group_joins(r, false, false); }},
      {"group-joins-streams-of-nccl", [](Rank& r) { group_joins(r, false, true); }},
      {"group-joins-streams-in-a-graph", [](Rank& r) { group_joins(r, true, false); }},
      {"group-joins-streams-of-nccl-in-a-graph", [](Rank& r) { group_joins(r, true, true); }},
      {"group-of-two-communicators-in-another-order", group_of_two_communicators_in_another_order},
      {"nested-groups-over-devices", nested_groups_over_devices},
      {"graph-beside-eager", graph_beside_eager},
      {"two-graphs", [](Rank& r) { two_graphs(r, false); }},
      {"one-graph-on-many-streams", one_graph_on_many_streams},
      {"graph-of-two-streams", [](Rank& r) { graph_of_two_streams(r, false); }},
      {"graph-of-a-group", [](Rank& r) { graph_of_two_streams(r, true); }},
      {"graphs-captured-together", [](Rank& r) { two_graphs(r, true); }},
      {"graph-with-ncclReduce", graph_with_ncclReduce},
      {"eager-waits-for-graph", [](Rank& r) { later_waits(r, Before::graph, Before::eager, false); }},
      {"graph-waits-for-eager", [](Rank& r) { later_waits(r, Before::eager, Before::graph, false); }},
      {"graph-waits-for-graph", [](Rank& r) { later_waits(r, Before::graph, Before::graph, false); }},
      {"eager-waits-for-graph-that-is-gone", [](Rank& r) { later_waits(r, Before::graph, Before::eager, true); }},
      {"graph-is-updated", graph_is_updated},
      {"broken-capture", broken_capture},
      {"graph-into-windows", graph_into_windows},
  };
  static const char* const names[] = {
      "init-in-global-capture",          "init-in-own-capture",           "init-in-relaxed-capture",
      "destroy-in-global-capture",       "destroy-in-own-capture",        "destroy-in-relaxed-capture",
      "window-in-global-capture",        "window-in-own-capture",         "window-in-relaxed-capture",
      "init-beside-a-global-capture",    "init-beside-an-own-capture",    "init-beside-a-relaxed-capture",
      "destroy-beside-a-global-capture", "destroy-beside-an-own-capture", "destroy-beside-a-relaxed-capture",
      "window-beside-a-global-capture",  "window-beside-an-own-capture",  "window-beside-a-relaxed-capture",
  };
  for (int i = 0; i < 18; ++i) {
    cases.push_back({names[i], [=](Rank& r) { beside_a_capture(r, i % 3, i >= 9, Action(i / 3 % 3)); }});
  }
  static const char* const random[] = {"random-1", "random-2", "random-3", "random-4"};
  for (int seed = 0; seed < 4; ++seed)
    cases.push_back({random[seed], [=](Rank& r) { Random(r, std::uint64_t(seed) + 1).run(random_epochs); }});
  return cases;
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) { return programs::main_of(argc, argv, programs::all_cases); }
