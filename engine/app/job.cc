// Putting a run together, in steps that every process takes in the same order.
#include "engine/app/job.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <future>
#include <set>
#include <span>
#include <sstream>

#include "engine/app/described_ranks.h"
#include "engine/app/options.h"
#include "engine/core/ranges.h"
#include "engine/core/version.h"
#include "engine/library_api/discovery.h"
#include "engine/platform/affinity.h"
#include "engine/platform/nvml.h"
#include "engine/platform/software.h"
#include "engine/record/environment.h"
#include "engine/record/nccl_conf.h"
#include "engine/record/time.h"

namespace busbw {
namespace {

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  const std::string full = name;
  return full.substr(0, full.find('.'));
}

int ranks_per_process(const Plan& plan) { return plan.threads * plan.devices; }

// What all processes must agree on. Where the record goes is not among it: only process 0 keeps one.
std::string measuring_arguments(const Plan& plan) {
  std::string text = plan.collective;
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    const std::string& argument = plan.arguments[i];
    if (argument == "--record")
      ++i;
    else if (!argument.starts_with("--record="))
      text += " " + argument;
  }
  return text;
}

// Different versions or arguments would hang in the first collective or, worse, measure something that nobody asked
// for.
void check_agreement(const Job& job) {
  std::string mine = format("busbw %s", version);
  mine += format("\nlibrary version %s", job.backend.library->version_text().c_str());
  mine += "\narguments " + measuring_arguments(job.plan);
  const std::vector<std::string> all = job.rendezvous->all_gather(mine);
  for (std::size_t p = 1; p < all.size(); ++p) {
    if (all[p] == all[0]) continue;
    std::istringstream ours(all[0]);
    std::istringstream theirs(all[p]);
    for (std::string a, b; std::getline(ours, a) && std::getline(theirs, b);)
      if (a != b)
        throw Error(
            ExitCode::invalid_usage,
            format("the processes of this job differ: process 0 has %s, process %zu has %s; start all of them alike",
                   a.c_str(), p, b.c_str()));
  }
}

struct GroupSeat {
  int colour = 0;
  int position = 0;   // of this process in its group
  int processes = 1;  // in this group
  int first = 0;      // process of the job that makes the communicator's id
};

GroupSeat find_group(const Job& job) {
  const Placement& placement = job.rendezvous->placement();
  GroupSeat seat{.colour = split_colour(job.plan.split, placement.process), .processes = 0, .first = -1};
  for (int p = 0; p < placement.processes; ++p) {
    if (split_colour(job.plan.split, p) != seat.colour) continue;
    if (seat.first < 0) seat.first = p;
    if (p < placement.process) ++seat.position;
    ++seat.processes;
  }
  return seat;
}

ncclUniqueId share_id(const Job& job, const GroupSeat& seat) {
  ncclUniqueId mine{};
  if (job.rendezvous->placement().process == seat.first)
    job.backend.library->check(job.backend.library->nccl().get_unique_id(&mine), "ncclGetUniqueId");
  const std::vector<std::string> all =
      job.rendezvous->all_gather(std::string_view(mine.internal, sizeof mine.internal));
  const std::string& chosen = all.at(static_cast<std::size_t>(seat.first));
  if (chosen.size() != sizeof mine.internal) throw Error(ExitCode::internal, "a process sent no communicator id");
  std::memcpy(mine.internal, chosen.data(), sizeof mine.internal);
  return mine;
}

// NCCL_TESTS_DEVICE: the first GPU of this process.
int device_number(const std::string& text) {
  char* rest = nullptr;
  errno = 0;
  const long number = std::strtol(text.c_str(), &rest, 10);
  constexpr long most = 1 << 16;
  if (text.empty() || *rest != '\0' || errno != 0 || number < 0 || number > most)
    throw Error(
        ExitCode::bad_arguments,
        format("NCCL_TESTS_DEVICE takes the number of the first GPU of this process, such as 0, not '%s'; unset "
               "it to let each process take the GPU of its local rank",
               text.c_str()));
  return static_cast<int>(number);
}

// The first device of this process. A launcher that shows each process its own devices only counts from 0 again.
int first_device(const Job& job) {
  const int wanted = ranks_per_process(job.plan);
  const int found = job.backend.platform->device_count();
  if (const char* text = std::getenv("NCCL_TESTS_DEVICE")) return device_number(text);
  const int first = job.rendezvous->placement().local_process * wanted;
  if (first + wanted <= found) return first;
  if (found == wanted) return 0;
  throw Error(ExitCode::not_implemented,
              format("this run needs %d GPUs on %s but %d were found; use fewer with -t, -g or fewer processes",
                     job.rendezvous->placement().local_processes * wanted, host_name().c_str(), found));
}

// A GPU's context takes some tenths of a second to make: one thread for each.
std::vector<std::unique_ptr<Device>> open_devices(Platform& platform, int first, int count) {
  std::vector<std::future<std::unique_ptr<Device>>> opening;
  const std::launch how = platform.asynchronous() ? std::launch::async : std::launch::deferred;
  for (int i = 1; i < count; ++i)
    opening.push_back(std::async(how, [&platform, index = first + i] { return platform.open(index); }));
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(platform.open(first));
  for (auto& device : opening) devices.push_back(device.get());
  return devices;
}

// Where the thread of these GPUs should run, and why it is left where it is, if that is worth a word. A thread that
// serves GPUs of two sockets may run on both.
CpuChoice cpus_for(const Job& job, std::span<const std::unique_ptr<Device>> devices) {
  if (!job.plan.near_gpu || devices.front()->info().kind != DeviceInfo::Kind::gpu) return {};
  std::string why_not;
  const Nvml* nvml = Nvml::of_this_machine(why_not);
  std::set<int> near;
  for (const auto& device : devices) {
    const std::vector<int> cpus = cpus_near(device->info().bus_id, "/sys", nvml);
    if (cpus.empty()) return {};
    near.insert(cpus.begin(), cpus.end());
  }
  const Placement& placement = job.rendezvous->placement();
  return choose_cpus({near.begin(), near.end()}, allowed_cpus(), unbound_cpus(),
                     placement.local_processes * ranks_per_process(job.plan));
}

// A choice for each thread of this process.
std::vector<CpuChoice> cpus_of_threads(const Job& job, std::span<const std::unique_ptr<Device>> devices) {
  std::vector<CpuChoice> choices;
  const auto each = static_cast<std::size_t>(job.plan.devices);
  for (std::size_t first = 0; first < devices.size(); first += each)
    choices.push_back(cpus_for(job, devices.subspan(first, each)));
  return choices;
}

void make_ranks(Job& job, const GroupSeat& group) {
  const int each = ranks_per_process(job.plan);
  const int first = first_device(job);
  // The management library takes its time to start, too, and its answer is wanted after the devices'.
  std::future<void> management;
  if (job.backend.platform->asynchronous())
    management =
        std::async(std::launch::async, [why_not = std::string()]() mutable { Nvml::of_this_machine(why_not); });
  std::vector<std::unique_ptr<Device>> devices = open_devices(*job.backend.platform, first, each);
  if (management.valid()) management.get();
  const std::vector<CpuChoice> cpus = cpus_of_threads(job, devices);
  if (!cpus.front().why_not.empty()) job.description.notes.push_back("--affinity near: " + cpus.front().why_not);
  for (int i = 0; i < each; ++i) {
    auto rank = std::make_unique<Rank>();
    rank->world_rank = job.rendezvous->placement().process * each + i;
    rank->seat = {group.position * each + i, group.processes * each};
    rank->device = std::move(devices[static_cast<std::size_t>(i)]);
    rank->device->use();
    rank->cpus = cpus.at(static_cast<std::size_t>(i / job.plan.devices)).cpus;
    rank->stream = rank->device->make_stream(job.plan.null_stream);
    rank->copy = [r = rank.get()](void* to, const void* from, std::size_t bytes) {
      r->device->copy(to, from, bytes, *r->stream);
    };
    job.ranks.push_back(std::move(rank));
  }
}

// One line per rank, fields separated by tabs, which parse_ranks reads.
std::string describe_ranks(const Job& job, const GroupSeat& group) {
  std::string text;
  const std::string hardware = hardware_identity();
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    const Rank& rank = *job.ranks[i];
    const DeviceInfo& device = rank.device->info();
    std::string name = device.name;
    std::replace_if(name.begin(), name.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
    text += format("%d\t%d\t%d\t%d\t%ld\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", rank.world_rank, group.colour,
                   job.rendezvous->placement().process, static_cast<int>(i) / job.plan.devices,
                   static_cast<long>(getpid()), host_name().c_str(), device.kind == DeviceInfo::Kind::gpu ? 1 : 0,
                   device.index, device.bus_id.c_str(), name.c_str(), ranges(rank.cpus).c_str(),
                   kernel_release().c_str(), gpu_driver_version().c_str(), hardware.c_str());
  }
  return text;
}

LibraryDescription describe_library(const Library& library) {
  LibraryDescription description{.name = library.name(),
                                 .path = library.path(),
                                 .version_code = library.version_code(),
                                 .version = library.version_text()};
  if (const auto build = nccl_build_of(library.path())) description.cuda_version = build->cuda_version;
  for (const Lack& lack : library.lacks()) description.lacks.emplace_back(lack.feature, lack.reason);
  return description;
}

constexpr std::size_t most_identified = 64;

void describe(Job& job, const GroupSeat& group) {
  const Placement& placement = job.rendezvous->placement();
  RunDescription& run = job.description;
  run.run_id = job.plan.run_id.empty() ? make_run_id(host_name()) : job.plan.run_id;
  run.run_id = job.rendezvous->broadcast(run.run_id, 0);
  run.started = rfc3339();
  run.launcher = placement.launcher;
  run.processes = placement.processes;
  run.ranks_in_group = group.processes * ranks_per_process(job.plan);
  run.library = describe_library(*job.backend.library);
  run.environment = relevant_environment(environ);
  Software software;
  for (const std::string& text : job.rendezvous->all_gather(describe_ranks(job, group)))
    for (RankDescription& rank : parse_ranks(text, software)) run.ranks.push_back(std::move(rank));
  if (!software.kernels.empty()) run.system.emplace_back("kernel", joined(software.kernels));
  if (!software.drivers.empty()) run.system.emplace_back("driver", joined(software.drivers));
  // Of more hosts than a list of nodes should hold, their names alone must tell.
  if (!software.hardware.empty() && software.hardware.size() <= most_identified)
    run.system.emplace_back("hardware", joined(software.hardware));
  for (auto& file : acting_files(environ, run.library.version_code)) run.system.push_back(std::move(file));
  run.conf = conf_settings(environ, run.library.version_code, run.notes);
}

// NCCL reads nccl.conf at its first call and sets what is absent in this process' environment, and plugins do likewise:
// what was added since the description is what acts without anybody having exported it.
std::string who_set(const Job& job, const std::string& name, const std::string& value) {
  for (const ConfSetting& each : job.description.conf)
    if (each.in_force && each.name == name && each.value == value) return "the library read it from " + each.file;
  return "the library or one of its plugins set it";
}

void note_what_the_library_set(Job& job) {
  Variables& known = job.description.environment;
  for (const auto& [name, value] : relevant_environment(environ)) {
    const auto same_name = [&name = name](const auto& variable) { return variable.first == name; };
    if (std::find_if(known.begin(), known.end(), same_name) != known.end()) continue;
    known.emplace_back(name, value);
    job.description.notes.push_back(name + '=' + value + " was not exported: " + who_set(job, name, value));
  }
  std::sort(known.begin(), known.end());
}

std::size_t available_host_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    std::size_t kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes << 10;
  }
  struct sysinfo system{};
  return sysinfo(&system) == 0 ? system.freeram * system.mem_unit : 0;
}

// Bytes that one buffer may have. GPUs: nccl-tests' rule, which leaves up to 5 GiB to the library and the driver.
// Host: nine tenths of what is available now, shared by the ranks of this host; expected values need no buffer there.
std::size_t usable_bytes(const Job& job) {
  const auto players = static_cast<std::size_t>(job.players);
  if (job.ranks.front()->device->info().kind == DeviceInfo::Kind::cpu) {
    const auto ranks =
        static_cast<std::size_t>(job.rendezvous->placement().local_processes * ranks_per_process(job.plan));
    return available_host_memory() / 10 * 9 / 2 / ranks / players;
  }
  const std::size_t buffers = job.plan.checks > 0 ? 3 : 2;
  constexpr std::size_t gib = std::size_t{1} << 30;
  std::size_t smallest = job.ranks.front()->device->info().total_memory.count;
  for (const auto& rank : job.ranks) smallest = std::min(smallest, rank->device->info().total_memory.count);
  const std::size_t reserve = std::min((smallest + 16 * gib - 1) / (16 * gib) * gib, 4 * gib) + gib;
  return smallest > reserve ? (smallest - reserve) / buffers / players : 0;
}

void fit_sizes_to_memory(Job& job) {
  const std::vector<double> all = job.rendezvous->all_gather(static_cast<double>(usable_bytes(job)));
  const auto usable = static_cast<std::size_t>(*std::min_element(all.begin(), all.end()));
  SizeRange& sizes = job.plan.sizes;
  if (sizes.first.count > usable)
    throw Error(
        ExitCode::bad_arguments,
        format("-b asks for %zu bytes but memory allows buffers of %zu bytes per rank; use a smaller -b, or fewer "
               "ranks",
               sizes.first.count, usable));
  if (sizes.last.count > usable) {
    sizes.last.count = usable;
    job.description.memory_note = format("# Reducing maxBytes to %zu due to memory limitation", usable);
  }
  job.buffer_bytes = sizes.last;
}

// What the library or the machine cannot do is left out with a line, as nccl-tests does.
void fit_plan_to_library(Job& job) {
  Plan& plan = job.plan;
  if (!job.backend.why_no_gpu.empty()) plan.warnings.push_back("measuring the processors: " + job.backend.why_no_gpu);
  const Library& library = *job.backend.library;
  if (plan.registration == Registration::symmetric &&
      (!library.at_least(2, 27, 0) || library.nccl().comm_window_register == nullptr)) {
    plan.warnings.push_back("-R 2 needs NCCL 2.27 or newer: using -R 1");
    plan.registration = Registration::local;
  }
  if (plan.registration == Registration::local && library.nccl().comm_register == nullptr) {
    plan.warnings.push_back("-R needs ncclCommRegister of NCCL 2.19 or newer: buffers are not registered");
    plan.registration = Registration::none;
  }
  if (plan.cta_policy && (!library.at_least(2, 27, 0) || (*plan.cta_policy > 1 && !library.at_least(2, 28, 0)))) {
    plan.warnings.push_back("-x needs a newer NCCL (1: 2.27, 2: 2.28): ignored");
    plan.cta_policy.reset();
  }
  if (plan.graph_launches > 0 && !job.backend.platform->asynchronous()) {
    plan.warnings.push_back("-G needs CUDA graphs, which a CPU library has not: ignored");
    plan.graph_launches = 0;
  }
  if (plan.timeout_seconds > 0 && library.nccl().comm_abort == nullptr)
    plan.warnings.push_back("-T: the library exports no ncclCommAbort; on a timeout the process is ended");
}

void note_missing_context(Job& job) {
  const bool gpus = job.ranks.front()->device->info().kind == DeviceInfo::Kind::gpu;
  std::string why_not = "this run measures processors, and context is read from GPUs";
  if (gpus && Nvml::of_this_machine(why_not) != nullptr) return;
  const std::string sentence = "no clocks, temperature, power and traffic: " + why_not;
  if (job.plan.show_context)
    job.plan.warnings.push_back(sentence);
  else if (gpus)
    job.description.notes.push_back(sentence);
}

// The main process takes the turns of all.
void join_turns(Job& job) {
  if (job.is_main_process()) job.turns = Turns::join(std::getenv("BUSBW_TURNS"));
  const std::string players = job.turns != nullptr ? std::to_string(job.turns->players()) : "1";
  job.players = std::max(1, std::atoi(job.rendezvous->broadcast(players, 0).c_str()));
}

}  // namespace

std::vector<Rank*> Job::ranks_of(int thread) const {
  std::vector<Rank*> mine;
  for (int i = 0; i < plan.devices; ++i)
    mine.push_back(ranks[static_cast<std::size_t>(thread * plan.devices + i)].get());
  return mine;
}

std::vector<Rank*> Job::all_ranks() const {
  std::vector<Rank*> all;
  for (const auto& rank : ranks) all.push_back(rank.get());
  return all;
}

void make_job(Job& job, Plan plan, std::unique_ptr<Rendezvous> rendezvous) {
  job.plan = std::move(plan);
  job.rendezvous = std::move(rendezvous);
  job.collective = make_collective(job.plan.collective, traffic_from_environment());
  job.backend = open_backend(job.plan.library);
  job.laps.end("library");
  check_agreement(job);
  join_turns(job);
  const GroupSeat group = find_group(job);
  check_ranks(job.plan, group.processes * ranks_per_process(job.plan));
  fit_plan_to_library(job);
  make_ranks(job, group);
  describe(job, group);
  note_missing_context(job);
  job.laps.end("devices");
  fit_sizes_to_memory(job);
  job.id = share_id(job, group);
  note_what_the_library_set(job);
}

}  // namespace busbw
