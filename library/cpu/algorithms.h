// The three ways in which a collective can run. All ranks must choose the same one, from what all of them know.
#pragma once

#include "library/cpu/communicator.h"

namespace busbw::cpu {

// Short: every rank copies its whole send buffer of `bytes` bytes into its slot; one exchange, and nothing to go round.
void run_short(Communicator& comm, const Collective& call, std::size_t bytes);

// Staged: every rank copies its contribution, chunk by chunk, into its slot; everyone reads what it needs from there.
// Works between any ranks, whatever their buffers.
void run_staged(Communicator& comm, const Collective& call);

// Direct: ranks read and write each other's buffers; two exchanges, no intermediate copy. Pays from some size on.
bool use_direct(const Communicator& comm, const Collective& call);
// False when some rank's buffers cannot be reached by all: then the caller goes on with the staged way, on every rank.
bool run_direct(Communicator& comm, const Collective& call);

}  // namespace busbw::cpu
