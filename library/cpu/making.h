// The ways to a communicator: with an id, out of another one, and with more or fewer ranks than that.
#pragma once

#include "busbw/nccl_abi.h"
#include "library/cpu/handle.h"

namespace busbw::cpu {

// Each throws where an argument is wrong. In a group the work is done when the outermost group ends.
ncclResult_t init_rank(ncclComm_t* result, int ranks, const ncclUniqueId& id, int rank, int device,
                       const ncclConfig_t* config);
ncclResult_t init_split(ncclComm_t parent, int color, int key, ncclComm_t* result, const ncclConfig_t* config);
// Only the ranks that stay call it, so that it works without the others, and on a parent that has failed.
ncclResult_t init_shrunk(ncclComm_t parent, const int* excluded, int excluded_count, ncclComm_t* result,
                         const ncclConfig_t* config, bool aborts);
// Of the ranks that are there one has the id that the new ones have too; its rank is that in the parent.
ncclResult_t init_grown(ncclComm_t parent, int ranks, const ncclUniqueId* id, ncclComm_t* result,
                        const ncclConfig_t* config);

// Ends what is under way in `comm`, and waits for it. `did`: what this rank did, for the others' sentence.
void end_calls(ncclComm& comm, const char* did);

}  // namespace busbw::cpu
