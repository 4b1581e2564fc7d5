// A rendezvous of several processes: the network of process 0 and the shared memory of each host, together.
#pragma once

#include <memory>

#include "engine/rendezvous/join/environment.h"

namespace busbw {

// Joins the job that this environment describes: Rendezvous::join with the environment as an argument.
std::unique_ptr<Rendezvous> join_job(const Environment& environment, const RendezvousOptions& options = {});

}  // namespace busbw
