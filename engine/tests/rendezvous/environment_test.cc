// Golden environments of every launcher, as real ones set them, and what each says when it is broken.
#include "engine/rendezvous/join/environment.h"

#include <gtest/gtest.h>

namespace busbw {
namespace {

using namespace std::chrono_literals;

Environment with(Environment base, const Environment& changes) {
  for (const auto& [name, value] : changes) {
    if (value == "<unset>") {
      base.erase(name);
    } else {
      base[name] = value;
    }
  }
  return base;
}

std::string sentence_of(const Environment& environment) {
  try {
    plan_join(environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_arguments);
    return error.what();
  }
  return "no error";
}

std::string place(const JoinPlan& plan) {
  const Placement& p = plan.placement;
  return format("%s %d/%d local %d/%d%s", p.launcher.c_str(), p.process, p.processes, p.local_process,
                p.local_processes, plan.local_known ? "" : " unknown");
}

std::vector<int> ports_of(const JoinPlan& plan) {
  std::vector<int> ports;
  for (const Endpoint& endpoint : plan.meeting.endpoints) ports.push_back(endpoint.port);
  return ports;
}

const Environment own{{"BUSBW_RANK", "2"},       {"BUSBW_WORLD_SIZE", "4"},       {"BUSBW_LOCAL_RANK", "0"},
                      {"BUSBW_LOCAL_SIZE", "2"}, {"BUSBW_ADDRESS", "node1:4711"}, {"BUSBW_SECRET", "s3cret"}};

const Environment torchrun{{"RANK", "1"},
                           {"WORLD_SIZE", "2"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "2"},
                           {"GROUP_RANK", "0"},
                           {"MASTER_ADDR", "localhost"},
                           {"MASTER_PORT", "36199"},
                           {"TORCHELASTIC_RESTART_COUNT", "0"},
                           {"TORCHELASTIC_RUN_ID", "3c04b938-cef8-40e9-b7da-fa92a48f02b8"}};

const Environment open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"OMPI_MCA_ess_base_jobid", "1251344385"},
                           {"OMPI_MCA_orte_precondition_transports", "872b92792cf57a91-946d92e875061359"},
                           {"PMIX_NAMESPACE", "1251344385"},
                           {"PMIX_RANK", "1"}};

const Environment hydra{{"PMI_RANK", "1"},        {"PMI_SIZE", "2"},        {"PMI_FD", "8"},
                        {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}, {"HYDI_CONTROL_FD", "7"}};

const Environment slurm{{"SLURM_PROCID", "2"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_STEP_NUM_TASKS", "4"},
                        {"SLURM_LOCALID", "0"},
                        {"SLURM_NODEID", "1"},
                        {"SLURM_JOB_ID", "812"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_STEP_NODELIST", "gpu[01-02]"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}};

TEST(PlanJoin, OfAnEmptyEnvironmentIsAJobOfOne) {
  EXPECT_EQ(place(plan_join({})), "none 0/1 local 0/1");
  EXPECT_EQ(place(plan_join({{"MASTER_ADDR", "x"}, {"SLURM_JOB_ID", "7"}})), "none 0/1 local 0/1");
}

TEST(PlanJoin, ReadsOwnVariables) {
  const JoinPlan plan = plan_join(own);
  EXPECT_EQ(place(plan), "busbw 2/4 local 0/2");
  EXPECT_EQ(plan.meeting.endpoints, (std::vector<Endpoint>{{"node1", 4711}}));
  EXPECT_EQ(plan.meeting.secret, "s3cret");
  EXPECT_EQ(plan.meeting.join_limit, 60s);
}

TEST(PlanJoin, ReadsTheSettingsThatHoldForEveryLauncher) {
  const JoinPlan plan = plan_join(with(own, {{"BUSBW_JOIN_TIMEOUT", "7"},
                                             {"BUSBW_INTERFACE", "ib0"},
                                             {"BUSBW_PORT_RANGE", "5000-5009"},
                                             {"BUSBW_HOSTS", "a,b"}}));
  EXPECT_EQ(plan.meeting.join_limit, 7s);
  EXPECT_EQ(plan.meeting.interface, "ib0");
  EXPECT_EQ(plan.meeting.ports, (PortRange{5000, 5009}));
  EXPECT_EQ(plan.meeting.hosts, (std::vector<std::string>{"a", "b"}));
}

TEST(PlanJoin, GivesTheListeningSocketToProcess0Only) {
  EXPECT_EQ(plan_join(with(own, {{"BUSBW_LISTEN_FD", "5"}})).meeting.listen_descriptor, std::nullopt);
  const Environment first = with(own, {{"BUSBW_LISTEN_FD", "5"}, {"BUSBW_RANK", "0"}});
  EXPECT_EQ(plan_join(first).meeting.listen_descriptor, 5);
}

TEST(PlanJoin, LeavesTheLocalRankToBeCountedWhereNobodyTellsIt) {
  EXPECT_EQ(place(plan_join(with(own, {{"BUSBW_LOCAL_RANK", "<unset>"}, {"BUSBW_LOCAL_SIZE", "<unset>"}}))),
            "busbw 2/4 local 0/1 unknown");
}

TEST(PlanJoin, MeetsTorchrunProcessesOfOneHostThroughAFile) {
  const JoinPlan plan = plan_join(torchrun);
  EXPECT_EQ(place(plan), "torchrun 1/2 local 1/2");
  EXPECT_NE(plan.meeting.meeting.find("3c04b938"), std::string::npos);
  EXPECT_TRUE(plan.meeting.endpoints.empty());
  const JoinPlan restarted = plan_join(with(torchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}}));
  EXPECT_NE(plan.meeting.meeting, restarted.meeting.meeting);
}

TEST(PlanJoin, MeetsTorchrunProcessesOfSeveralHostsBesideTheMastersPort) {
  const Environment two_hosts = with(torchrun, {{"LOCAL_WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "n1"}});
  const JoinPlan plan = plan_join(two_hosts);
  ASSERT_EQ(plan.meeting.endpoints.size(), 4u);
  for (const Endpoint& endpoint : plan.meeting.endpoints) {
    EXPECT_EQ(endpoint.host, "n1");
    EXPECT_GE(endpoint.port, 21000);
    EXPECT_LE(endpoint.port, 28999);
  }
  EXPECT_FALSE(plan.meeting.secret.empty());
  const JoinPlan other = plan_join(with(two_hosts, {{"RANK", "0"}}));
  EXPECT_EQ(other.meeting.endpoints, plan.meeting.endpoints);
  EXPECT_EQ(other.meeting.secret, plan.meeting.secret);
  EXPECT_EQ(ports_of(plan_join(with(two_hosts, {{"BUSBW_PORT", "4000"}}))), std::vector<int>{4000});
  EXPECT_EQ(ports_of(plan_join(with(two_hosts, {{"BUSBW_PORT_RANGE", "4000-4000"}}))), std::vector<int>{4000});
}

TEST(PlanJoin, MeetsOpenMpiProcessesOfOneHostThroughAFile) {
  const JoinPlan plan = plan_join(open_mpi);
  EXPECT_EQ(place(plan), "mpirun 1/2 local 1/2");
  EXPECT_NE(plan.meeting.meeting.find("PMIX_NAMESPACE=1251344385"), std::string::npos);
}

TEST(PlanJoin, AsksForAnAddressWhereOpenMpiSpansHosts) {
  const Environment spanning =
      with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_NE(sentence_of(spanning).find("add -x BUSBW_ADDRESS=HOST"), std::string::npos) << sentence_of(spanning);
  const JoinPlan plan = plan_join(with(spanning, {{"BUSBW_ADDRESS", "head"}}));
  EXPECT_EQ(plan.meeting.endpoints.size(), 4u);
  EXPECT_EQ(plan.meeting.endpoints.front().host, "head");
  EXPECT_TRUE(plan.meeting.meeting.empty());
  EXPECT_FALSE(plan.meeting.secret.empty());
}

TEST(PlanJoin, MeetsHydraProcessesThroughPmi) {
  const JoinPlan plan = plan_join(hydra);
  EXPECT_EQ(place(plan), "mpiexec 1/2 local 1/2");
  EXPECT_EQ(plan.meeting.pmi_descriptor, 8);
  EXPECT_NE(sentence_of(with(hydra, {{"PMI_FD", "<unset>"}})).find("PMI_FD is not"), std::string::npos);
  const JoinPlan addressed =
      plan_join(with(hydra, {{"PMI_FD", "<unset>"}, {"BUSBW_ADDRESS", "h:9"}, {"BUSBW_SECRET", "x"}}));
  EXPECT_EQ(addressed.meeting.endpoints, (std::vector<Endpoint>{{"h", 9}}));
}

TEST(PlanJoin, MeetsSlurmTasksOfSeveralNodesAtTheFirst) {
  const JoinPlan plan = plan_join(slurm);
  EXPECT_EQ(place(plan), "slurm 2/4 local 0/2");
  ASSERT_EQ(plan.meeting.endpoints.size(), 4u);
  EXPECT_EQ(plan.meeting.endpoints.front().host, "gpu01");
  EXPECT_EQ(plan.meeting.hosts, (std::vector<std::string>{"gpu01", "gpu02"}));
  const JoinPlan next_step = plan_join(with(slurm, {{"SLURM_STEP_ID", "1"}}));
  EXPECT_NE(next_step.meeting.secret, plan.meeting.secret);
  EXPECT_NE(ports_of(next_step), ports_of(plan));
}

TEST(PlanJoin, MeetsSlurmTasksOfOneNodeThroughAFile) {
  const JoinPlan plan = plan_join(with(slurm, {{"SLURM_STEP_NODELIST", "gpu01"},
                                               {"SLURM_STEP_TASKS_PER_NODE", "4"},
                                               {"SLURM_NODEID", "0"},
                                               {"SLURM_LOCALID", "2"}}));
  EXPECT_EQ(place(plan), "slurm 2/4 local 2/4");
  EXPECT_NE(plan.meeting.meeting.find("SLURM_JOB_ID=812"), std::string::npos);
}

TEST(PlanJoin, DoesNotTakeABatchScriptForARank) {
  const Environment batch{
      {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "812"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(place(plan_join(batch)), "none 0/1 local 0/1");
  // Slurm's numbers of the batch step and of the interactive step of salloc.
  for (const char* step : {"4294967291", "4294967290"}) {
    EXPECT_EQ(place(plan_join(with(batch, {{"SLURM_STEP_ID", step}}))), "none 0/1 local 0/1");
  }
}

TEST(PlanJoin, TakesTheInnerLauncherOfTwo) {
  EXPECT_EQ(place(plan_join(with(slurm, open_mpi))), "mpirun 1/2 local 1/2");
  EXPECT_EQ(place(plan_join(with(slurm, hydra))), "mpiexec 1/2 local 1/2");
  EXPECT_EQ(place(plan_join(with(with(open_mpi, torchrun), own))), "busbw 2/4 local 0/2");
  // srun --mpi=pmi2 sets PMI_RANK beside its own variables.
  const Environment pmi2 = with(slurm, {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"PMI_FD", "9"}});
  EXPECT_EQ(place(plan_join(pmi2)), "slurm 2/4 local 0/2");
}

struct Broken {
  Environment environment;
  const char* says;
};

TEST(PlanJoin, SaysInOneSentenceWhatIsWrong) {
  const std::vector<Broken> cases{
      {with(own, {{"BUSBW_RANK", "4"}}), "BUSBW_RANK is 4 but BUSBW_WORLD_SIZE is 4"},
      {with(own, {{"BUSBW_RANK", "one"}}), "BUSBW_RANK is 'one', but it takes a whole number from 0"},
      {with(own, {{"BUSBW_RANK", "-1"}}), "BUSBW_RANK is '-1'"},
      {with(own, {{"BUSBW_RANK", "1 "}}), "BUSBW_RANK is '1 '"},
      {with(own, {{"BUSBW_WORLD_SIZE", "99999999999999999999"}}), "BUSBW_WORLD_SIZE is '99999999999999999999'"},
      {with(own, {{"BUSBW_WORLD_SIZE", "<unset>"}}), "BUSBW_RANK is set but BUSBW_WORLD_SIZE is not"},
      {with(own, {{"BUSBW_SECRET", "<unset>"}}), "BUSBW_SECRET is not set"},
      {with(own, {{"BUSBW_ADDRESS", "<unset>"}}), "BUSBW_ADDRESS is not set"},
      {with(own, {{"BUSBW_ADDRESS", "host:port"}}), "BUSBW_ADDRESS's port is 'port'"},
      {with(own, {{"BUSBW_ADDRESS", "[::1"}}), "BUSBW_ADDRESS is '[::1', but it takes host:port"},
      {with(own, {{"BUSBW_ADDRESS", "host:"}}), "BUSBW_ADDRESS is 'host:', but it takes host:port"},
      {with(own, {{"BUSBW_ADDRESS", "host:0"}}), "BUSBW_ADDRESS's port is '0'"},
      {with(own, {{"BUSBW_LOCAL_RANK", "2"}}), "Local rank 2 of 2 contradicts"},
      {with(own, {{"BUSBW_LOCAL_SIZE", "<unset>"}}), "without the local size"},
      {with(own, {{"BUSBW_PORT_RANGE", "9-5"}}), "BUSBW_PORT_RANGE is '9-5'"},
      {with(own, {{"BUSBW_JOIN_TIMEOUT", "0"}}), "BUSBW_JOIN_TIMEOUT is '0'"},
      {with(torchrun, {{"WORLD_SIZE", "<unset>"}}), "RANK is set but WORLD_SIZE is not"},
      {with(torchrun, {{"MASTER_PORT", "<unset>"}}), "MASTER_ADDR or MASTER_PORT is not"},
      {with(open_mpi, {{"OMPI_COMM_WORLD_RANK", "<unset>"}}),
       "OMPI_COMM_WORLD_SIZE is set but OMPI_COMM_WORLD_RANK is not"},
      {with(hydra, {{"PMI_SIZE", "1"}}), "PMI_RANK is 1 but PMI_SIZE is 1"},
      {with(slurm, {{"SLURM_STEP_NODELIST", "gpu[01-"}}), "'gpu[01-' is no host list"},
      {with(slurm, {{"SLURM_NODEID", "2"}}), "SLURM_NODEID is 2 but SLURM_STEP_TASKS_PER_NODE is '2(x2)'"},
      {with(slurm, {{"SLURM_STEP_NUM_TASKS", "x"}}), "SLURM_STEP_NUM_TASKS is 'x'"},
  };
  for (const Broken& broken : cases) {
    const std::string sentence = sentence_of(broken.environment);
    EXPECT_NE(sentence.find(broken.says), std::string::npos) << "says: " << sentence << "\nnot: " << broken.says;
    EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
  }
}

TEST(ParseEndpoint, ReadsNamesAndAddresses) {
  EXPECT_EQ(parse_endpoint("node1:80", "X"), (Endpoint{"node1", 80}));
  EXPECT_EQ(parse_endpoint("node1", "X"), (Endpoint{"node1", 0}));
  EXPECT_EQ(parse_endpoint("[fd00::2]:65535", "X"), (Endpoint{"fd00::2", 65535}));
  EXPECT_EQ(parse_endpoint("fd00::2", "X"), (Endpoint{"fd00::2", 0}));
  EXPECT_EQ(to_string(Endpoint{"fd00::2", 1}), "[fd00::2]:1");
}

}  // namespace
}  // namespace busbw
