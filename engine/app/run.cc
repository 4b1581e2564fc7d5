// Starts the threads of this process, lets them sweep, and ends the run in order whatever happened.
#include "engine/app/run.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <thread>

#include "engine/app/job.h"
#include "engine/app/reporter.h"
#include "engine/app/sweep.h"
#include "engine/core/visible.h"
#include "engine/measure/bench.h"
#include "engine/measure/context.h"
#include "engine/platform/affinity.h"
#include "engine/platform/nvml.h"
#include "engine/record/summary.h"

namespace busbw {
namespace {

const char* failure_kind(ExitCode code) {
  switch (code) {
    case ExitCode::cuda:
      return "CUDA failure";
    case ExitCode::nccl:
      return "NCCL failure";
    case ExitCode::timeout:
      return "timeout";
    case ExitCode::success:
    case ExitCode::internal:
    case ExitCode::not_implemented:
    case ExitCode::invalid_usage:
    case ExitCode::wrong_data:
    case ExitCode::interrupted:
    case ExitCode::bad_arguments:
      return "failure";
  }
  return "failure";
}

// The line that scripts search for on stdout, and the sentence for a person on stderr.
void print_failure(const Failure& failure, int process) {
  const char* kind = failure_kind(failure.code);
  const std::string sentence = bounded_sentence(failure.sentence);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  if (failure.code != ExitCode::interrupted && failure.code != ExitCode::bad_arguments) {
    std::printf("%s: Test %s '%s'\n", host, kind, sentence.c_str());
    std::printf(" .. %s pid %ld: Test failure\n", host, static_cast<long>(getpid()));
    std::fflush(stdout);
  }
  if (failure.process == process || failure.process < 0) {
    std::fprintf(stderr, "busbw: %s\n", sentence.c_str());
  } else {
    std::fprintf(stderr, "busbw: process %d stops because of process %d: %s\n", process, failure.process,
                 sentence.c_str());
  }
}

// Turns what a thread threw into the failure of the whole job. Nothing for a failure that is already known.
void report_to_team(Team& team) noexcept {
  try {
    throw;
  } catch (const PeerFailure&) {
  } catch (const Error& error) {
    team.fail(error.code(), error.what());
  } catch (const std::exception& error) {
    team.fail(ExitCode::internal, explained(error));
  }
}

// Null where this machine's GPUs tell nothing; the record has the reason.
ContextReader::Read reader_of_gpus() {
  std::string why_not;
  const Nvml* nvml = Nvml::of_this_machine(why_not);
  if (nvml == nullptr) return nullptr;
  return [nvml](const std::string& bus_id) { return nvml->snapshot(bus_id); };
}

// What the threads of one process share while they measure.
class Session {
 public:
  explicit Session(Job& job)
      : job_(job),
        team_(*job.rendezvous, job.plan.threads,
              job.backend.platform->asynchronous() ? LineUp::sleeping : LineUp::spinning),
        abort_switch_(*job.backend.library),
        loud_(job, job.is_main_process()),
        silent_(job, false),
        watchdog_(team_, abort_switch_, job.plan.timeout_seconds) {
    if (job.description.has_gpus())
      context_.emplace(*job.rendezvous, job.description.ranks, job.players, job.plan.show_context, reader_of_gpus());
    watchdog_.on_forced_end([this](const Failure& failure) {
      if (may_tell()) tell(failure);
      // Else the main thread tells at this moment, and gets a moment for it.
      for (int look = 0; look < 100 && !told_all_.load(); ++look)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      std::fflush(nullptr);
    });
  }

  int measure() {
    loud_.header();
    std::vector<std::thread> helpers;
    try {
      if (!job_.plan.parallel_init) prepare(job_.all_ranks(), 0);
      for (int t = 1; t < job_.plan.threads; ++t) helpers.emplace_back([this, t] { thread_main(t); });
      thread_main(0);
    } catch (...) {
      report_to_team(team_);
    }
    for (std::thread& helper : helpers) helper.join();
    return finish();
  }

 private:
  // One thread says how the run ended, once: the main one, or the watchdog's where the main one does not come to it.
  bool may_tell() { return !telling_.exchange(true); }

  void tell(const Failure& failure) {
    loud_.abandon(failure);
    loud_.footer();
    print_failure(failure, job_.rendezvous->placement().process);
    told_all_.store(true);
  }

  void prepare(const std::vector<Rank*>& ranks, int thread) {
    const Watchdog::Wait wait(watchdog_, thread, "the communicators");
    const Library& library = *job_.backend.library;
    RunSummary& summary = loud_.summary();
    const std::size_t before = used_memory(ranks);
    create_communicators(ranks, library, job_.plan, job_.id, abort_switch_);
    const std::size_t with_communicators = used_memory(ranks);
    if (thread == 0) loud_.lap("communicators");
    for (Rank* rank : ranks) allocate_buffers(*rank, library, job_.plan, job_.buffer_bytes);
    register_buffers(ranks, library, job_.plan.registration, job_.buffer_bytes);
    if (thread != 0) return;
    loud_.lap("buffers");
    summary.memory_initialization = {with_communicators - std::min(before, with_communicators)};
    memory_before_sweep_ = used_memory(ranks);
    summary.memory_user = {memory_before_sweep_ - std::min(with_communicators, memory_before_sweep_)};
  }

  std::size_t used_memory(const std::vector<Rank*>& ranks) const {
    if (!job_.plan.report_memory) return 0;
    std::size_t most = 0;
    for (const Rank* rank : ranks) {
      rank->device->use();
      most = std::max(most, rank->device->memory_used().count);
    }
    return most;
  }

  void thread_main(int thread) {
    try {
      const std::vector<Rank*> ranks = job_.ranks_of(thread);
      ranks.front()->device->use();
      if (job_.plan.parallel_init) prepare(ranks, thread);
      // Only now: threads that the library starts for other GPUs would inherit the binding.
      if (!ranks.front()->cpus.empty()) bind_this_thread(ranks.front()->cpus);
      Bench bench({.plan = job_.plan,
                   .collective = *job_.collective,
                   .library = *job_.backend.library,
                   .team = team_,
                   .watchdog = watchdog_,
                   .thread = thread,
                   .ranks = ranks,
                   .buffer_bytes = job_.buffer_bytes});
      ContextReader* const context = thread == 0 && context_ ? &*context_ : nullptr;
      sweep(job_, bench, thread == 0 ? loud_ : silent_, context,
            [this, thread](bool cycle_begins) { return await_turn(thread, cycle_begins); });
      team_.barrier();
    } catch (...) {
      report_to_team(team_);
    }
  }

  // While others have the turn, no thread of this engine touches a device. False: no turn follows.
  bool await_turn(int thread, bool cycle_begins) {
    if (job_.players == 1) return true;
    if (thread == 0) {
      const bool mine = job_.turns == nullptr || job_.turns->take(cycle_begins, [this] { team_.check(); });
      // Over the network and not in shared memory: who waits there sleeps, and leaves the processors to the others.
      has_turn_ = job_.rendezvous->broadcast(mine ? "go" : "end", 0) == "go";
    }
    team_.barrier();
    return has_turn_;
  }

  int finish() {
    RunSummary& summary = loud_.summary();
    if (const Failure* failure = team_.failure()) {
      if (may_tell())
        tell(*failure);
      else
        std::this_thread::sleep_for(std::chrono::seconds(10));  // the watchdog ends the process
      destroy_communicators(job_.all_ranks(), *job_.backend.library, abort_switch_);
      return exit_status(failure->code);
    }
    const std::size_t used = used_memory(job_.all_ranks());
    summary.memory_collective = {used - std::min(used, memory_before_sweep_)};
    if (summary.out_of_bounds > 0 || !is_fast_enough(summary).value_or(true))
      summary.exit_code = static_cast<int>(ExitCode::wrong_data);
    summary.last_error = job_.backend.library->last_error();
    destroy_communicators(job_.all_ranks(), *job_.backend.library, abort_switch_);
    loud_.lap("ending");
    if (!may_tell()) std::this_thread::sleep_for(std::chrono::seconds(10));
    loud_.footer();
    told_all_.store(true);
    if (summary.exit_code != 0 && job_.is_main_process()) {
      char host[256] = "";
      gethostname(host, sizeof host - 1);
      std::printf(" .. %s pid %ld: Test failure\n", host, static_cast<long>(getpid()));
    }
    if (const std::optional<Error> problem = loud_.unwritten(); problem && summary.exit_code == 0) {
      std::fprintf(stderr, "busbw: %s\n", problem->what());
      return exit_status(problem->code());
    }
    return summary.exit_code;
  }

  Job& job_;
  Team team_;
  AbortSwitch abort_switch_;
  Reporter loud_;                         // of thread 0; speaks on process 0
  Reporter silent_;                       // of the other threads
  std::optional<ContextReader> context_;  // used by thread 0
  std::size_t memory_before_sweep_ = 0;
  bool has_turn_ = false;  // written by thread 0, between barriers of all
  std::atomic<bool> telling_{false}, told_all_{false};
  Watchdog watchdog_;  // the last one: its thread uses what stands above, and has ended before that goes
};

// Buffers, contexts and the driver's own handlers take tenths of a second to end one after the other. Nobody needs
// that: everything is written, the communicators are destroyed, and the system takes back what the process held. Others
// do hear of the end in order: process 0 still sends its last messages when its rendezvous ends.
[[noreturn]] void leave_at_once(Job& job, int exit_code) {
  job.turns.reset();
  job.rendezvous.reset();
  std::fflush(nullptr);
  _exit(exit_code);
}

Failure failure_of(const Error& error, int process) {
  const auto* peer = dynamic_cast<const PeerFailure*>(&error);
  return {peer != nullptr ? peer->rank() : process, error.code(), error.what()};
}

}  // namespace

int run(Plan plan) {
  Laps laps;
  std::unique_ptr<Rendezvous> rendezvous = Rendezvous::join();
  Rendezvous* const shared = rendezvous.get();
  const int process = shared->placement().process;
  std::unique_ptr<Job> job;
  try {
    // The rendezvous lives in the job from here on, and the job until the end of this function.
    job = std::make_unique<Job>();
    laps.end("rendezvous");
    job->laps = laps;
    make_job(*job, std::move(plan), std::move(rendezvous));
    int exit_code = 0;
    {
      Session session(*job);
      exit_code = session.measure();
    }
    if (shared->failure() != nullptr) return exit_code;
    shared->leave();
    if (job->backend.platform->asynchronous()) leave_at_once(*job, exit_code);
    return exit_code;
  } catch (const Error& error) {
    const Failure failure = failure_of(error, process);
    if (failure.process == process) shared->announce(failure);
    print_failure(failure, process);
    return exit_status(failure.code);
  }
}

}  // namespace busbw
