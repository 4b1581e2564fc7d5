// One reader per launcher, tried in the order of `launchers` below.
#include "engine/rendezvous/join/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/core/sha256.h"
#include "engine/rendezvous/join/node_list.h"
#include "engine/rendezvous/join/variables.h"

namespace busbw {
namespace {

constexpr long most_processes = 16384;
constexpr int port_candidates = 4;

// Where a launcher names no port, each job takes a few neighbouring ones of the range by the hash of its identity.
std::vector<Endpoint> derived_endpoints(const std::string& host, const PortRange& range, const std::string& identity) {
  const Digest digest = sha256("port\n" + identity);
  std::uint32_t seed = 0;
  std::memcpy(&seed, digest.data(), sizeof seed);
  const std::uint32_t width = static_cast<std::uint32_t>(range.last - range.first + 1);
  std::vector<Endpoint> endpoints;
  for (std::uint32_t k = 0; k < std::min<std::uint32_t>(port_candidates, width); ++k) {
    endpoints.push_back({host, range.first + static_cast<int>((seed % width + k) % width)});
  }
  return endpoints;
}

// What every launcher's reader needs: the place in the job, and the settings of our own that override it.
struct Ranks {
  const char* launcher;
  long process, processes;
  std::optional<long> local_process, local_processes;

  bool one_host() const { return local_processes && *local_processes == processes; }
};

void check_ranks(const Ranks& ranks, const char* rank_name, const char* size_name) {
  if (ranks.process >= ranks.processes) {
    bad_environment(format("%s is %ld but %s is %ld: ranks count from 0 and stay below the size; correct one of them",
                           rank_name, ranks.process, size_name, ranks.processes));
  }
  if (ranks.local_process.has_value() != ranks.local_processes.has_value()) {
    bad_environment(
        format("The local rank beside %s is given without the local size or the other way round; set or "
               "unset both",
               rank_name));
  }
  if (ranks.local_process && (*ranks.local_process >= *ranks.local_processes ||
                              *ranks.local_processes > ranks.processes || *ranks.local_process > ranks.process)) {
    bad_environment(format("Local rank %ld of %ld contradicts %s %ld of %ld; correct the launcher's environment",
                           *ranks.local_process, *ranks.local_processes, rank_name, ranks.process, ranks.processes));
  }
}

JoinPlan start_plan(const Ranks& ranks, const Variables& variables, const RendezvousOptions& options) {
  JoinPlan plan;
  plan.placement = {.process = static_cast<int>(ranks.process),
                    .processes = static_cast<int>(ranks.processes),
                    .local_process = static_cast<int>(ranks.local_process.value_or(0)),
                    .local_processes = static_cast<int>(ranks.local_processes.value_or(1)),
                    .launcher = ranks.launcher};
  plan.local_known = ranks.local_process.has_value() || ranks.processes == 1;
  plan.meeting.secret = variables.text("BUSBW_SECRET");
  plan.meeting.names_come_late = variables.has("KUBERNETES_SERVICE_HOST");
  plan.meeting.interface = variables.text("BUSBW_INTERFACE");
  plan.meeting.ports = variables.port_range("BUSBW_PORT_RANGE");
  plan.meeting.join_limit = options.join_limit;
  if (const auto seconds = variables.number("BUSBW_JOIN_TIMEOUT", 1, 86'400)) {
    plan.meeting.join_limit = std::chrono::seconds(*seconds);
  }
  return plan;
}

// A secret that anyone who knows the job's number can compute: it keeps jobs apart, not an attacker out.
std::string weak_secret(const std::string& identity) { return hex(sha256("secret\n" + identity)); }

// Process 0 listens on `host`: at BUSBW_PORT, or at one of a few ports derived from the identity.
void meet_at(MeetingPlan& meeting, const Variables& variables, Endpoint at, const std::string& identity) {
  if (const auto port = variables.number("BUSBW_PORT", 1, 65535); port && at.port == 0)
    at.port = static_cast<int>(*port);
  meeting.endpoints = at.port != 0 ? std::vector<Endpoint>{at}
                                   : derived_endpoints(at.host, meeting.ports.value_or(PortRange{}), identity);
  if (meeting.secret.empty()) meeting.secret = weak_secret(identity);
}

// BUSBW_ADDRESS beside any launcher overrides how its processes would meet.
bool meet_at_own_address(MeetingPlan& meeting, const Variables& variables, const std::string& identity) {
  if (!variables.has("BUSBW_ADDRESS")) return false;
  if (meeting.secret.empty() && identity.empty()) {
    bad_environment("BUSBW_ADDRESS is set but BUSBW_SECRET is not; set it to the same random text for every process");
  }
  meet_at(meeting, variables, parse_endpoint(variables.text("BUSBW_ADDRESS"), "BUSBW_ADDRESS"), identity);
  return true;
}

std::vector<std::string> split_at_commas(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start < list.size();) {
    const std::size_t comma = std::min(list.find(',', start), list.size());
    if (comma > start) parts.push_back(list.substr(start, comma - start));
    start = comma + 1;
  }
  return parts;
}

std::optional<JoinPlan> from_busbw(const Variables& variables, const RendezvousOptions& options) {
  if (!variables.has("BUSBW_RANK") && !variables.has("BUSBW_WORLD_SIZE")) return std::nullopt;
  const Ranks ranks{.launcher = "busbw",
                    .process = variables.required("BUSBW_RANK", "BUSBW_WORLD_SIZE", 0, most_processes - 1),
                    .processes = variables.required("BUSBW_WORLD_SIZE", "BUSBW_RANK", 1, most_processes),
                    .local_process = variables.number("BUSBW_LOCAL_RANK", 0, most_processes - 1),
                    .local_processes = variables.number("BUSBW_LOCAL_SIZE", 1, most_processes)};
  check_ranks(ranks, "BUSBW_RANK", "BUSBW_WORLD_SIZE");
  JoinPlan plan = start_plan(ranks, variables, options);
  if (ranks.processes == 1) return plan;
  plan.meeting.hosts = split_at_commas(variables.text("BUSBW_HOSTS"));
  if (!variables.has("BUSBW_SECRET")) {
    bad_environment(
        "BUSBW_WORLD_SIZE is above 1 but BUSBW_SECRET is not set: set it to the same random text for "
        "every process of the job");
  }
  if (!variables.has("BUSBW_ADDRESS")) {
    bad_environment("BUSBW_WORLD_SIZE is above 1 but BUSBW_ADDRESS is not set: set it to host:port of process 0");
  }
  meet_at_own_address(plan.meeting, variables, "busbw\n" + variables.text("BUSBW_ADDRESS") + plan.meeting.secret);
  if (const auto descriptor = variables.number("BUSBW_LISTEN_FD", 0, 1 << 20); descriptor && ranks.process == 0) {
    plan.meeting.listen_descriptor = static_cast<int>(*descriptor);
  }
  return plan;
}

std::optional<JoinPlan> from_torchrun(const Variables& variables, const RendezvousOptions& options) {
  if (!variables.has("RANK") && !variables.has("WORLD_SIZE")) return std::nullopt;
  const Ranks ranks{.launcher = "torchrun",
                    .process = variables.required("RANK", "WORLD_SIZE", 0, most_processes - 1),
                    .processes = variables.required("WORLD_SIZE", "RANK", 1, most_processes),
                    .local_process = variables.has("LOCAL_WORLD_SIZE")
                                         ? variables.number("LOCAL_RANK", 0, most_processes - 1)
                                         : std::nullopt,
                    .local_processes = variables.number("LOCAL_WORLD_SIZE", 1, most_processes)};
  check_ranks(ranks, "RANK", "WORLD_SIZE");
  JoinPlan plan = start_plan(ranks, variables, options);
  if (ranks.processes == 1) return plan;
  const std::string identity = "torchrun\n" + variables.identity({"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                                                                  "TORCHELASTIC_RESTART_COUNT"});
  if (meet_at_own_address(plan.meeting, variables, identity)) return plan;
  if (!variables.has("MASTER_ADDR") || !variables.has("MASTER_PORT")) {
    bad_environment(
        "RANK and WORLD_SIZE are set but MASTER_ADDR or MASTER_PORT is not: torchrun sets all four; set "
        "them, or BUSBW_ADDRESS=host:port of process 0 and BUSBW_SECRET");
  }
  if (ranks.one_host()) {
    plan.meeting.meeting = identity;
  } else {
    // MASTER_PORT itself belongs to torchrun's own store.
    meet_at(plan.meeting, variables, {variables.text("MASTER_ADDR"), 0}, identity);
  }
  return plan;
}

std::optional<JoinPlan> from_open_mpi(const Variables& variables, const RendezvousOptions& options) {
  if (!variables.has("OMPI_COMM_WORLD_RANK") && !variables.has("OMPI_COMM_WORLD_SIZE")) return std::nullopt;
  const Ranks ranks{
      .launcher = "mpirun",
      .process = variables.required("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", 0, most_processes - 1),
      .processes = variables.required("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", 1, most_processes),
      .local_process = variables.number("OMPI_COMM_WORLD_LOCAL_RANK", 0, most_processes - 1),
      .local_processes = variables.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, most_processes)};
  check_ranks(ranks, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  JoinPlan plan = start_plan(ranks, variables, options);
  if (ranks.processes == 1) return plan;
  // The precondition key is 128 random bits that Open MPI hands to every process of a job: a fair secret.
  const std::string identity =
      variables.identity({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_precondition_transports"});
  if (meet_at_own_address(plan.meeting, variables, identity)) return plan;
  if (!ranks.one_host()) {
    bad_environment(
        format("mpirun started %ld processes on several hosts, and its environment does not say where "
               "process 0 is; add -x BUSBW_ADDRESS=HOST, the host of process 0 (HOST:PORT fixes the port)",
               ranks.processes));
  }
  if (identity.empty()) {
    bad_environment(
        "OMPI_COMM_WORLD_SIZE is above 1 but PMIX_NAMESPACE, which names the job, is not set; start through "
        "mpirun, or set BUSBW_ADDRESS=host:port of process 0 and BUSBW_SECRET");
  }
  plan.meeting.meeting = "mpirun\n" + identity;
  return plan;
}

// Slurm numbers what is no step of srun (batch script, interactive shell) from 0xfffffff0 up.
bool in_slurm_step(const Variables& variables) {
  const auto step = variables.number("SLURM_STEP_ID", 0, 0xffffffffL);
  return variables.has("SLURM_PROCID") && step && *step < 0xfffffff0L;
}

std::optional<JoinPlan> from_hydra(const Variables& variables, const RendezvousOptions& options) {
  if (!variables.has("PMI_RANK") && !variables.has("PMI_SIZE")) return std::nullopt;
  // srun --mpi=pmi2 sets PMI_RANK too, but its own variables say more.
  if (!variables.has("MPI_LOCALRANKID") && in_slurm_step(variables)) return std::nullopt;
  const Ranks ranks{.launcher = "mpiexec",
                    .process = variables.required("PMI_RANK", "PMI_SIZE", 0, most_processes - 1),
                    .processes = variables.required("PMI_SIZE", "PMI_RANK", 1, most_processes),
                    .local_process = variables.number("MPI_LOCALRANKID", 0, most_processes - 1),
                    .local_processes = variables.number("MPI_LOCALNRANKS", 1, most_processes)};
  check_ranks(ranks, "PMI_RANK", "PMI_SIZE");
  JoinPlan plan = start_plan(ranks, variables, options);
  if (ranks.processes == 1 || meet_at_own_address(plan.meeting, variables, "")) return plan;
  const auto descriptor = variables.number("PMI_FD", 0, 1 << 20);
  if (!descriptor) {
    bad_environment(
        "PMI_RANK and PMI_SIZE are set but PMI_FD is not, so the processes cannot find each other through "
        "mpiexec; set BUSBW_ADDRESS=host:port of process 0 and BUSBW_SECRET");
  }
  plan.meeting.pmi_descriptor = static_cast<int>(*descriptor);
  return plan;
}

std::optional<long> slurm_local_size(const Variables& variables) {
  const std::string list = variables.text("SLURM_STEP_TASKS_PER_NODE");
  const auto node = variables.number("SLURM_NODEID", 0, most_processes - 1);
  if (list.empty() || !node) return std::nullopt;
  const std::vector<int> tasks = expand_tasks_per_node(list);
  if (*node >= static_cast<long>(tasks.size())) {
    bad_environment(format("SLURM_NODEID is %ld but SLURM_STEP_TASKS_PER_NODE is '%s', which counts %zu nodes", *node,
                           list.c_str(), tasks.size()));
  }
  return tasks[static_cast<std::size_t>(*node)];
}

std::optional<JoinPlan> from_slurm(const Variables& variables, const RendezvousOptions& options) {
  if (!in_slurm_step(variables)) return std::nullopt;
  const char* size_name = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  const auto local_size = slurm_local_size(variables);
  const Ranks ranks{
      .launcher = "slurm",
      .process = variables.required("SLURM_PROCID", "SLURM_STEP_ID", 0, most_processes - 1),
      .processes = variables.required(size_name, "SLURM_PROCID", 1, most_processes),
      .local_process = local_size ? variables.number("SLURM_LOCALID", 0, most_processes - 1) : std::nullopt,
      .local_processes = local_size};
  check_ranks(ranks, "SLURM_PROCID", size_name);
  JoinPlan plan = start_plan(ranks, variables, options);
  if (ranks.processes == 1) return plan;
  const std::string identity = "slurm\n" + variables.identity({"SLURM_JOB_ID", "SLURM_STEP_ID"});
  const char* list_name = variables.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_NODELIST";
  if (variables.has(list_name)) plan.meeting.hosts = expand_node_list(variables.text(list_name));
  if (meet_at_own_address(plan.meeting, variables, identity)) return plan;
  if (ranks.one_host() || plan.meeting.hosts.size() == 1) {
    plan.meeting.meeting = identity;
  } else if (plan.meeting.hosts.empty()) {
    bad_environment("SLURM_PROCID is set but SLURM_STEP_NODELIST is not; set BUSBW_ADDRESS=host:port of process 0");
  } else {
    meet_at(plan.meeting, variables, {plan.meeting.hosts.front(), 0}, identity);
  }
  return plan;
}

}  // namespace

Environment current_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != text.npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string to_string(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

Endpoint parse_endpoint(std::string_view text, std::string_view variable) {
  std::string_view host = text, port;
  if (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    host = close == std::string_view::npos ? "" : text.substr(1, close - 1);
    port = close == std::string_view::npos ? "" : text.substr(close + 1);
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos && text.rfind(':') == colon) {
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  long number = 0;
  const bool has_port = port.size() > 1 && port.front() == ':';
  if (has_port) {
    const Environment one{{std::string(variable) + "'s port", std::string(port.substr(1))}};
    number = *Variables(one).number(std::string(variable) + "'s port", 1, 65535);
  }
  if (host.empty() || host.find_first_of(" \t\r\n[]/@") != std::string_view::npos || (!port.empty() && !has_port)) {
    bad_environment(
        format("%s is '%.*s', but it takes host:port, where host is a name or an address and an IPv6 address "
               "stands in brackets",
               std::string(variable).c_str(), static_cast<int>(std::min<std::size_t>(text.size(), 80)), text.data()));
  }
  return {std::string(host), static_cast<int>(number)};
}

JoinPlan plan_join(const Environment& environment, const RendezvousOptions& options) {
  using Reader = std::optional<JoinPlan> (*)(const Variables&, const RendezvousOptions&);
  // A launcher nested in another sets its variables beside the outer one's: mpirun inside a Slurm step is mpirun's job.
  static constexpr Reader launchers[] = {from_busbw, from_torchrun, from_open_mpi, from_hydra, from_slurm};
  const Variables variables(environment);
  for (const Reader read : launchers) {
    if (auto plan = read(variables, options)) return *plan;
  }
  return start_plan({.launcher = "none", .process = 0, .processes = 1, .local_process = 0, .local_processes = 1},
                    variables, options);
}

}  // namespace busbw
