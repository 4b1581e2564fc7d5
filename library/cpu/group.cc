// Runs a group: first what makes communicators, then each communicator's calls, several communicators at the same time.
#include "library/cpu/group.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace busbw::cpu {
namespace {

struct Calls {
  ncclComm* comm;
  std::vector<Collective> collectives;
  std::vector<Transfer> transfers;
};

struct Group {
  ncclResult_t failure = ncclSuccess;
  std::vector<std::function<ncclResult_t()>> setups;
  std::vector<Calls> calls;

  Calls& of(ncclComm& comm) {
    const auto found = std::find_if(calls.begin(), calls.end(), [&](const Calls& c) { return c.comm == &comm; });
    if (found != calls.end()) return *found;
    calls.push_back({.comm = &comm, .collectives = {}, .transfers = {}});
    return calls.back();
  }
};

thread_local Group group;

ncclResult_t run_calls(Calls& calls) {
  return run_exclusively(*calls.comm, [&](Communicator& core) {
    for (const Collective& call : calls.collectives) core.run(call);
    if (!calls.transfers.empty()) core.run(calls.transfers);
  });
}

// Runs all at the same time, the last one on this thread; the result is the first failure. None runs where the system
// gives no thread for one of them: the others would wait for it in vain.
template <class Jobs, class Run>
ncclResult_t run_together(Jobs& jobs, Run run) {
  enum class Gate { shut, open, cancelled };
  std::atomic<Gate> gate{Gate::shut};
  std::vector<ncclResult_t> results(jobs.size(), ncclSuccess);
  std::vector<std::thread> helpers;
  std::string why_not;
  try {
    helpers.reserve(jobs.size());
    for (std::size_t i = 0; i + 1 < jobs.size(); ++i) {
      helpers.emplace_back([&, i] {
        gate.wait(Gate::shut);
        if (gate.load() == Gate::open) results[i] = run(jobs[i]);
      });
    }
  } catch (const std::exception& error) {
    why_not = error.what();
  }
  gate.store(why_not.empty() ? Gate::open : Gate::cancelled);
  gate.notify_all();
  if (!jobs.empty() && why_not.empty()) results.back() = run(jobs.back());
  for (std::thread& helper : helpers) helper.join();
  if (!why_not.empty()) {
    return remember(nullptr, ncclSystemError,
                    text("A group of %zu calls needs a thread for each, and the system gives no more: %s.", jobs.size(),
                         why_not.c_str()));
  }
  const auto failed = std::find_if(results.begin(), results.end(), [](ncclResult_t r) { return r != ncclSuccess; });
  return failed == results.end() ? ncclSuccess : *failed;
}

}  // namespace

thread_local constinit int group_depth = 0;

void group_start() { ++group_depth; }

void note_group_failure(ncclResult_t code) {
  if (in_group() && group.failure == ncclSuccess) group.failure = code;
}

ncclResult_t group_end(Calling calling) {
  if (group_depth == 0) {
    return remember(nullptr, ncclInvalidUsage, "ncclGroupEnd was called without ncclGroupStart.");
  }
  if (--group_depth > 0) return ncclSuccess;
  ncclResult_t result = group.failure;
  if (result == ncclSuccess) {
    result = run_together(group.setups, [](auto& setup) { return setup(); });
  }
  if (result == ncclSuccess && calling == Calling::real) {
    result = run_together(group.calls, run_calls);
  }
  group.failure = ncclSuccess;
  group.setups.clear();
  group.calls.clear();
  return result;
}

ncclResult_t enqueue(ncclComm& comm, const Collective& call) {
  group.of(comm).collectives.push_back(call);
  return ncclSuccess;
}

ncclResult_t submit(ncclComm& comm, const Transfer& transfer) {
  if (!in_group()) {
    // Kept, so that a single message allocates nothing.
    static thread_local std::vector<Transfer> alone(1);
    alone[0] = transfer;
    return run_exclusively(comm, [&](Communicator& core) { core.run(alone); });
  }
  group.of(comm).transfers.push_back(transfer);
  return ncclSuccess;
}

ncclResult_t submit_setup(std::function<ncclResult_t()> setup) {
  if (!in_group()) return setup();
  group.setups.push_back(std::move(setup));
  return ncclSuccess;
}

}  // namespace busbw::cpu
