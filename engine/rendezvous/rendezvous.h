// Who am I, who else is there, and how processes of one job exchange bytes, wait for each other and share a failure.
//
// Works from any launcher's environment and without MPI. Every wait is bounded and ends with PeerFailure as soon as any
// process of the job has failed or vanished, on every other process, naming the rank that was lost.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/strangers.h"

namespace busbw {

// The place of this process in the job, as the launcher told it.
struct Placement {
  int process = 0;
  int processes = 1;
  int local_process = 0;  // among the processes of this host
  int local_processes = 1;
  std::string launcher = "none";  // none, busbw, mpirun, mpiexec, slurm, torchrun
};

// What one process told the others when it failed.
struct Failure {
  int process = -1;  // the process that failed or was lost; -1 unknown
  ExitCode code = ExitCode::internal;
  std::string sentence;
};

struct RendezvousOptions {
  std::chrono::milliseconds join_limit{60'000};  // BUSBW_JOIN_TIMEOUT seconds overrides
};

class Rendezvous {
 public:
  // Reads the launcher's environment. Throws Error(bad_arguments) for contradictory or unusable settings, and
  // Error(timeout) naming the ranks that did not come. A process started alone gets a rendezvous of one.
  static std::unique_ptr<Rendezvous> join(const RendezvousOptions& options = {});

  // A rendezvous of this process alone: no sockets, no threads.
  static std::unique_ptr<Rendezvous> alone(const Placement& placement = {});

  virtual ~Rendezvous() = default;

  virtual const Placement& placement() const = 0;

  // Collective calls: every process makes the same ones in the same order, from one thread at a time.
  // Returns the contributions in process order. Contributions may differ in length (up to 16 MiB).
  virtual std::vector<std::string> all_gather(std::string_view mine) = 0;
  std::string broadcast(std::string_view mine, int root) { return all_gather(mine).at(static_cast<std::size_t>(root)); }

  // Releases all processes within a microsecond or so of each other on one host (shared memory), because what is
  // timed starts right after it.
  virtual void barrier() = 0;

  // Fast all-gather of one number per process (one host: shared memory), in process order.
  virtual std::vector<double> all_gather(double mine) = 0;

  // Tells every other process that this one failed; returns at once and never throws.
  virtual void announce(const Failure& failure) noexcept = 0;

  // The first failure known in this job, or nothing: cheap enough for a spin loop.
  virtual const Failure* failure() const noexcept = 0;

  // Called once, from a watching thread, when another process fails or vanishes, so that calls stuck in a library can
  // be aborted. Set before the first call that may hang; nullptr clears it.
  virtual void on_failure(std::function<void(const Failure&)> action) = 0;

  // Who called at the meeting place and was not of the job: known to the process that opened it, nobody elsewhere.
  virtual StrangerCounts strangers() const { return {}; }

  // Throws PeerFailure if any process of the job has failed.
  void check() const {
    if (const Failure* lost = failure()) throw PeerFailure(lost->code, lost->sentence, lost->process);
  }

  // Orderly end: afterwards a closing connection is no failure. Waits (bounded) for the others.
  virtual void leave() = 0;
};

}  // namespace busbw
