// ncclGroupStart to ncclGroupEnd: collects this thread's calls and runs them together, so that ranks which share a
// thread do not wait for each other.
#pragma once

#include <functional>

#include "library/cpu/collective.h"
#include "library/cpu/handle.h"
#include "library/cpu/transfer.h"

namespace busbw::cpu {

void group_start();
enum class Calling {
  real,
  simulated,  // ncclGroupSimulateEnd: communicators are made, and none of the group's calls runs
};
ncclResult_t group_end(Calling calling = Calling::real);

// How many groups this thread has open. Asked in every call, hence not through a function that finds the thread's data.
extern thread_local constinit int group_depth __attribute__((tls_model("initial-exec")));
inline bool in_group() { return group_depth > 0; }

ncclResult_t enqueue(ncclComm& comm, const Collective& call);

// Outside a group these run at once; inside, when the outermost group ends.
inline ncclResult_t submit(ncclComm& comm, const Collective& call) {
  if (in_group()) return enqueue(comm, call);
  return run_exclusively(comm, [&](Communicator& core) { core.run(call); });
}
ncclResult_t submit(ncclComm& comm, const Transfer& transfer);
// Making communicators; all of a group's at the same time.
ncclResult_t submit_setup(std::function<ncclResult_t()> setup);
// A call that failed before it was submitted; the group reports it too.
void note_group_failure(ncclResult_t code);

}  // namespace busbw::cpu
