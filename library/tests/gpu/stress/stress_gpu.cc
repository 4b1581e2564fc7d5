// Random collectives through any library with the NCCL API, every result checked: sizes, types, alignments, streams,
// communicators, groups and CUDA graphs in an order that a seed decides.
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "engine/core/error.h"
#include "engine/library_api/library.h"
#include "engine/measure/team.h"
#include "engine/measure/watchdog.h"
#include "engine/rendezvous/rendezvous.h"
#include "library/tests/gpu/stress/account.h"
#include "library/tests/gpu/stress/draw.h"
#include "library/tests/gpu/stress/lane.h"
#include "library/tests/gpu/stress/limits.h"
#include "library/tests/gpu/stress/options.h"

namespace busbw::stress {
namespace {

// The engine itself splits no communicators.
ncclCommSplit_t* find_split(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : reinterpret_cast<ncclCommSplit_t*>(dlsym(handle, "ncclCommSplit"));
}

std::unique_ptr<Platform> open_platform(const Options& options, const Library& library) {
  const bool host =
      options.memory == "host" || (options.memory == "auto" && library.name().find(" CPU ") != std::string::npos);
  if (host) return make_host_platform();
  std::string why_not;
  std::unique_ptr<Platform> platform = make_cuda_platform(why_not);
  if (platform == nullptr)
    throw Error(ExitCode::cuda, options.library + " needs a GPU, but " + why_not + "; --memory host takes the host's");
  return platform;
}

// What every thread of this process knows.
class Stress {
 public:
  Stress(const Options& options, Rendezvous& rendezvous)
      : options_(options),
        rendezvous_(rendezvous),
        alone_(Rendezvous::alone()),
        library_(options.library),
        split_(find_split(options.library)),
        platform_(open_platform(options, library_)),
        team_(options.trust_library ? *alone_ : rendezvous, options.threads),
        abort_switch_(library_),
        watchdog_(team_, abort_switch_, options.timeout_seconds) {
    watchdog_.on_forced_end([this](const Failure& failure) { say(failure); });
    if (ranks() < 2) throw Error(ExitCode::bad_arguments, "one rank has nobody to talk to; start two or more");
    std::tie(limits_, collectives_) =
        limits_of(options_, library_, platform_->asynchronous(), split_ != nullptr, ranks());
  }

  int run() {
    std::vector<std::thread> helpers;
    try {
      make_lanes();
      make_communicators();
      if (limits_.windows) register_windows();
      account_.begin();
      for (int t = 1; t < options_.threads; ++t) helpers.emplace_back([this, t] { thread_main(t); });
      thread_main(0);
    } catch (...) {
      report_to_team();
    }
    for (std::thread& helper : helpers) helper.join();
    return finish();
  }

 private:
  int processes() const { return rendezvous_.placement().processes; }
  int ranks_here() const { return options_.threads * options_.devices; }
  int ranks() const { return processes() * ranks_here(); }
  bool is_main() const { return rendezvous_.placement().process == 0; }

  void make_lanes() {
    const int local_first = rendezvous_.placement().local_process * ranks_here();
    const int found = platform_->device_count();
    for (int i = 0; i < ranks_here(); ++i) {
      // A launcher that shows each process its own devices only counts from 0 again.
      const int device = found >= local_first + ranks_here() ? local_first + i : i;
      lanes_.push_back(
          std::make_unique<Lane>(Lane::Parts{.library = library_,
                                             .collectives = collectives_,
                                             .limits = limits_,
                                             .world_rank = rendezvous_.placement().process * ranks_here() + i,
                                             .device = platform_->open(device)}));
    }
  }

  void make_communicators() {
    const Watchdog::Wait wait(watchdog_, 0, "the communicators");
    for (std::size_t c = 0; c < limits_.communicators.size(); ++c) make_communicator(c);
  }

  // By thread 0 for all ranks of the process.
  void make_communicator(std::size_t c) {
    ncclUniqueId id{};
    if (is_main()) library_.check(library_.nccl().get_unique_id(&id), "ncclGetUniqueId");
    const std::string shared = rendezvous_.broadcast({id.internal, sizeof id.internal}, 0);
    if (shared.size() != sizeof id.internal) throw Error(ExitCode::internal, "process 0 sent no communicator id");
    std::memcpy(id.internal, shared.data(), sizeof id.internal);
    const int members = limits_.communicators[c];
    Group group(library_);
    for (const auto& lane : lanes_) {
      if (lane->world_rank() >= members) continue;
      lane->device().use();
      library_.check(library_.nccl().comm_init_rank(&lane->comms()[c], members, id, lane->world_rank()),
                     format("ncclCommInitRank for rank %d of %d", lane->world_rank(), members).c_str());
    }
    group.end();
    for (const auto& lane : lanes_)
      if (lane->comms()[c] != nullptr) abort_switch_.add(lane->comms()[c]);
  }

  void split_communicator(std::size_t c) {
    Group group(library_);
    for (const auto& lane : lanes_) {
      lane->device().use();
      const bool member = lane->world_rank() < limits_.communicators[c];
      library_.check(
          split_(lane->comms()[0], member ? 0 : NCCL_SPLIT_NOCOLOR, lane->world_rank(), &lane->comms()[c], nullptr),
          format("ncclCommSplit for rank %d", lane->world_rank()).c_str(), lane->comms()[0]);
    }
    group.end();
    for (const auto& lane : lanes_)
      if (lane->comms()[c] != nullptr) abort_switch_.add(lane->comms()[c]);
  }

  // While no call is in flight anywhere. Communicators that were split from this one go on without it.
  void renew_communicator(const Renewal& renewal, int thread,
                          std::vector<std::vector<std::unique_ptr<Graph>>>& graphs) {
    if (renewal.communicator < 0) return;
    for (const int graph : renewal.graphs) graphs[static_cast<std::size_t>(graph)].clear();
    const Watchdog::Wait wait(watchdog_, thread, "a communicator that is unmade and made again");
    team_.barrier();
    if (thread == 0) {
      const auto c = static_cast<std::size_t>(renewal.communicator);
      Group group(library_);
      for (const auto& lane : lanes_) {
        const ncclComm_t comm = std::exchange(lane->comms()[c], nullptr);
        if (comm == nullptr || !abort_switch_.take(comm)) continue;
        lane->device().use();
        library_.check((renewal.aborts ? library_.nccl().comm_abort : library_.nccl().comm_destroy)(comm),
                       renewal.aborts ? "ncclCommAbort" : "ncclCommDestroy");
      }
      group.end();
      renewal.splits ? split_communicator(c) : make_communicator(c);
      account_.renewed();
    }
    team_.barrier();
  }

  void register_windows() {
    const Watchdog::Wait wait(watchdog_, 0, "the windows");
    Group group(library_);
    for (const auto& lane : lanes_) lane->register_windows();
    group.end();
  }

  std::vector<Lane*> lanes_of(int thread) {
    std::vector<Lane*> mine;
    for (int i = 0; i < options_.devices; ++i)
      mine.push_back(lanes_[static_cast<std::size_t>(thread * options_.devices + i)].get());
    return mine;
  }

  void thread_main(int thread) {
    try {
      const std::vector<Lane*> lanes = lanes_of(thread);
      Drawer drawer(limits_, options_.seed);
      std::vector<std::vector<std::unique_ptr<Graph>>> graphs(static_cast<std::size_t>(limits_.graphs));
      for (std::uint64_t batches = 0; drawer.drawn() < options_.calls && !is_time_up(thread, batches); ++batches) {
        const Batch batch = drawer.next();
        renew_communicator(batch.renewal, thread, graphs);
        run_batch(batch, lanes, thread, graphs);
        if (thread == 0) account_.count(batch, drawer.drawn(), limits_, is_main());
      }
      team_.barrier();
    } catch (...) {
      report_to_team();
    }
  }

  // All threads of all processes stop after the same batch, so all must know the same clock.
  bool is_time_up(int thread, std::uint64_t batches) {
    constexpr std::uint64_t between_looks = 32;
    if (options_.seconds <= 0 || options_.trust_library || batches % between_looks != 0) return false;
    const std::vector<double> all = team_.all_gather(thread, account_.seconds());
    return *std::max_element(all.begin(), all.end()) > options_.seconds;
  }

  void run_batch(const Batch& batch, const std::vector<Lane*>& lanes, int thread,
                 std::vector<std::vector<std::unique_ptr<Graph>>>& graphs) {
    const Drawn& first = batch.calls.front();
    watchdog_.describe(thread, format("rank %d, calls %llu to %llu, which begin with %s of %zu elements",
                                      lanes.front()->world_rank(), static_cast<unsigned long long>(first.number),
                                      static_cast<unsigned long long>(batch.calls.back().number),
                                      limits_.kinds[static_cast<std::size_t>(first.kind)].name.c_str(), first.count));
    const auto each = [&](const auto& work) {
      for (const Batch* one : {&batch, batch.beside.get()})
        for (std::size_t i = 0; one != nullptr && i < one->calls.size(); ++i)
          for (Lane* lane : lanes) work(*lane, *one, i);
    };
    each([](Lane& lane, const Batch& one, std::size_t i) { lane.prepare(one, i); });
    stall(lanes.front()->world_rank(), first);
    int launched = 0;
    const auto launch_beside = [&] {
      if (!batch.beside || launched++ == batch.beside->replays) return;
      for (const auto& graph : graphs[static_cast<std::size_t>(batch.beside->graph)]) graph->launch();
    };
    switch (batch.manner) {
      case Manner::eager:
        for (std::size_t i = 0; i < batch.calls.size(); ++i) {
          enqueue_one(batch, i, lanes);
          if (batch.calls[i].stream_goes)
            for (Lane* lane : lanes) lane->renew_stream(batch.calls[i].stream);
          if (i + 1 < batch.calls.size()) launch_beside();
        }
        break;
      case Manner::grouped: {
        Group group(library_);
        for (std::size_t i = 0; i < batch.calls.size(); ++i)
          for (Lane* lane : lanes) lane->enqueue(batch, i);
        group.end();
        break;
      }
      case Manner::captured:
        graphs[static_cast<std::size_t>(batch.graph)] = capture(batch, lanes);
        [[fallthrough]];
      case Manner::replayed:
        for (int launch = 0; launch < batch.replays; ++launch) {
          for (const auto& graph : graphs[static_cast<std::size_t>(batch.graph)]) graph->launch();
          launch_beside();
        }
        break;
    }
    // At least once, or its outputs are not there.
    if (launched == 0) launch_beside();
    complete(lanes, thread);
    each([](Lane& lane, const Batch& one, std::size_t i) { lane.check(one, i); });
  }

  void enqueue_one(const Batch& batch, std::size_t position, const std::vector<Lane*>& lanes) {
    std::optional<Group> group;
    if (lanes.size() > 1) group.emplace(library_);
    for (Lane* lane : lanes) lane->enqueue(batch, position);
    if (group) group->end();
  }

  std::vector<std::unique_ptr<Graph>> capture(const Batch& batch, const std::vector<Lane*>& lanes) {
    // A batch in a graph has one stream.
    const auto stream = static_cast<std::size_t>(batch.calls.front().stream);
    for (Lane* lane : lanes) lane->streams()[stream]->begin_capture();
    for (std::size_t i = 0; i < batch.calls.size(); ++i) enqueue_one(batch, i, lanes);
    std::vector<std::unique_ptr<Graph>> graphs;
    for (Lane* lane : lanes) graphs.push_back(lane->streams()[stream]->end_capture());
    for (const auto& graph : graphs) graph->instantiate();
    return graphs;
  }

  // Ranks arrive at different times: now and then one is late by up to half a millisecond.
  static void stall(int rank, const Drawn& call) {
    const std::uint32_t dice = (call.seed ^ (static_cast<std::uint32_t>(rank) * 0x9e3779b9U)) * 0x85ebca6bU;
    if (dice >> 26 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice % 500));
  }

  void complete(const std::vector<Lane*>& lanes, int thread) {
    const Watchdog::Wait wait(watchdog_, thread, "calls in flight");
    for (Lane* lane : lanes) {
      for (const auto& stream : lane->streams()) {
        while (!stream->finished()) {
          team_.check();
          look_for_errors(*lane);
          sched_yield();
        }
      }
      // A library whose kernels give up ends them too: what they left is no result.
      look_for_errors(*lane);
    }
  }

  void look_for_errors(Lane& lane) {
    const auto get_error = library_.nccl().comm_get_async_error;
    if (get_error == nullptr) return;
    for (const ncclComm_t comm : lane.comms()) {
      if (comm == nullptr) continue;
      ncclResult_t error = ncclSuccess;
      library_.check(get_error(comm, &error), "ncclCommGetAsyncError", comm);
      library_.check(error, format("rank %d, calls in flight", lane.world_rank()).c_str(), comm);
    }
  }

  void report_to_team() noexcept {
    try {
      throw;
    } catch (const PeerFailure&) {
    } catch (const Error& error) {
      team_.fail(error.code(), error.what());
    } catch (const std::exception& error) {
      team_.fail(ExitCode::internal, std::string("internal error: ") + error.what());
    }
  }

  void say(const Failure& failure) const {
    const int here = rendezvous_.placement().process;
    if (options_.trust_library || failure.process == here || failure.process < 0) {
      std::fprintf(stderr, "busbw_stress: process %d: %s\n", here, failure.sentence.c_str());
    } else {
      std::fprintf(stderr, "busbw_stress: process %d stops because of process %d: %s\n", here, failure.process,
                   failure.sentence.c_str());
    }
  }

  int finish() {
    const Failure* failure = team_.failure();
    if (failure != nullptr) say(*failure);
    if (is_main()) account_.summarise(failure, ranks(), library_.name());
    for (const auto& lane : lanes_)
      for (const ncclComm_t comm : lane->comms())
        if (comm != nullptr && failure == nullptr && abort_switch_.take(comm)) closing_.push_back(comm);
    if (failure != nullptr) return static_cast<int>(failure->code);
    const Watchdog::Wait wait(watchdog_, 0, "the end of the communicators");
    for (const auto& lane : lanes_) lane->deregister_windows();
    Group group(library_);
    for (const ncclComm_t comm : closing_) library_.nccl().comm_destroy(comm);
    group.end();
    return 0;
  }

  const Options& options_;
  Rendezvous& rendezvous_;
  std::unique_ptr<Rendezvous> alone_;
  Library library_;
  ncclCommSplit_t* split_;  // null: the library has none
  std::unique_ptr<Platform> platform_;
  Limits limits_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  Team team_;
  AbortSwitch abort_switch_;
  Watchdog watchdog_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<ncclComm_t> closing_;
  Account account_{options_};
};

int run(const Options& options) {
  const std::unique_ptr<Rendezvous> rendezvous = Rendezvous::join();
  int code = 0;
  {
    Stress stress(options, *rendezvous);
    code = stress.run();
  }
  if (options.trust_library && code != 0) {
    // Nobody told the others: their rendezvous must not take this end for one more lost rank than there is.
    std::fflush(nullptr);
    _exit(code);
  }
  if (rendezvous->failure() == nullptr) rendezvous->leave();
  return code;
}

}  // namespace
}  // namespace busbw::stress

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  try {
    bool help = false;
    const busbw::stress::Options options = busbw::stress::parse_options(argc, argv, help);
    if (help) {
      std::fputs(busbw::stress::usage, stdout);
      return 0;
    }
    return busbw::stress::run(options);
  } catch (const busbw::Error& error) {
    std::fprintf(stderr, "busbw_stress: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "busbw_stress: internal error: %s\n", error.what());
    return static_cast<int>(busbw::ExitCode::internal);
  }
}
