// Acts on a join plan: process 0 opens the door, the others find it, and all wait until everybody has come.
#pragma once

#include <memory>
#include <string>

#include "engine/rendezvous/join/environment.h"
#include "engine/rendezvous/net/hub.h"
#include "engine/rendezvous/net/spoke.h"

namespace busbw {

struct Joined {
  std::unique_ptr<Hub> hub;  // of process 0 alone; ends after the spoke
  std::unique_ptr<Spoke> spoke;
};

// Throws Error with one sentence: whom process 0 missed, or why process 0 could not be reached or refused.
// `runtime_folder` is the value of XDG_RUNTIME_DIR.
Joined meet(const JoinPlan& plan, const std::string& runtime_folder);

}  // namespace busbw
