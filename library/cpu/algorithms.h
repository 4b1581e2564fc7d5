// The two ways in which a collective can run. All ranks must choose the same one, from what all of them know.
#pragma once

#include "library/cpu/communicator.h"

namespace busbw::cpu {

// Staged: every rank copies its contribution, chunk by chunk, into its slot; everyone reads what it needs from there.
// Works between any ranks, and takes one exchange for what fits a slot.
void run_staged(Communicator& comm, const Collective& call);

// Direct: ranks read and write each other's buffers; two exchanges, no intermediate copy. Pays from some size on.
bool use_direct(const Communicator& comm, const Collective& call);
// False when some rank's buffers cannot be reached by all: then the caller goes on with the staged way, on every rank.
bool run_direct(Communicator& comm, const Collective& call);

}  // namespace busbw::cpu
