// One run over all its processes: who takes part, on which devices, in which communicator, and that all agree.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/app/backend.h"
#include "engine/collectives/collective.h"
#include "engine/core/laps.h"
#include "engine/core/plan.h"
#include "engine/core/result.h"
#include "engine/measure/rank.h"
#include "engine/rendezvous/host/turns.h"
#include "engine/rendezvous/rendezvous.h"

namespace busbw {

struct Job {
  Plan plan;
  std::unique_ptr<Rendezvous> rendezvous;
  Backend backend;
  std::unique_ptr<Collective> collective;
  RunDescription description;
  std::vector<std::unique_ptr<Rank>> ranks;  // of this process: thread by thread
  ncclUniqueId id{};                         // of this process's communicator
  Bytes buffer_bytes;
  Laps laps;                     // of the start
  int players = 1;               // engines that measure in turn, this one included
  std::unique_ptr<Turns> turns;  // of the main process; null where this engine is alone

  bool is_main_process() const { return rendezvous->placement().process == 0; }
  // The ranks of one thread of this process.
  std::vector<Rank*> ranks_of(int thread) const;
  std::vector<Rank*> all_ranks() const;
};

// Fills an empty job. Every step is collective over the processes of the job. Throws Error or PeerFailure; the
// rendezvous lies in the job even then.
void make_job(Job& job, Plan plan, std::unique_ptr<Rendezvous> rendezvous);

}  // namespace busbw
