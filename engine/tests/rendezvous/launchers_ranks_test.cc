// Real launchers, where this machine has them: their processes meet by what the launcher's environment says.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "engine/tests/rendezvous/ranks.h"

namespace busbw {
namespace {

// What each process of a launched job runs: this test program again, by the name of this test.
constexpr const char* rank_program =
    "/proc/self/exe --gtest_also_run_disabled_tests --gtest_filter=LaunchedRank.DISABLED_Meets --gtest_brief=1";

TEST(LaunchedRank, DISABLED_Meets) {
  const auto rendezvous = Rendezvous::join({.join_limit = std::chrono::seconds(20)});
  const Placement& placement = rendezvous->placement();
  const auto numbers = rendezvous->all_gather(placement.process * 1.5);
  rendezvous->barrier();
  std::string all;
  for (const double number : numbers) all += format("%g ", number);
  // One write per process, so that lines do not mix.
  const std::string line = format("MET %s %d/%d local %d/%d got %s\n", placement.launcher.c_str(), placement.process,
                                  placement.processes, placement.local_process, placement.local_processes, all.c_str());
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, line.data(), line.size());
  rendezvous->leave();
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  char buffer[4096];
  for (std::size_t count; (count = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, count);
  pclose(pipe);
  return text;
}

std::string own_path() {
  char path[4096] = "";
  return readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : "";
}

// The launcher must not see the variables of a launcher that runs this test.
std::string launched(const std::string& launcher) {
  std::string program = rank_program;
  program.replace(0, std::string("/proc/self/exe").size(), own_path());
  return output_of("env -i PATH=\"$PATH\" HOME=\"$HOME\" timeout 60 " + launcher + " " + program);
}

bool found(const std::string& launcher) { return std::system(("command -v " + launcher + " >/dev/null").c_str()) == 0; }

void expect_meeting_of_three(const std::string& output, const std::string& launcher) {
  for (int process = 0; process < 3; ++process) {
    EXPECT_NE(output.find(format("MET %s %d/3 local %d/3 got 0 1.5 3", launcher.c_str(), process, process)),
              std::string::npos)
        << output;
  }
}

TEST(Launchers, ProcessesOfOpenMpiMeet) {
  const std::string mpirun = found("mpirun.openmpi") ? "mpirun.openmpi" : "mpirun";
  const std::string version = output_of(mpirun + " --version");  // under its second name it calls itself OpenRTE
  if (!found(mpirun) ||
      (version.find("Open MPI") == std::string::npos && version.find("OpenRTE") == std::string::npos)) {
    GTEST_SKIP() << "no mpirun of Open MPI here (Debian: apt-get install openmpi-bin)";
  }
  expect_meeting_of_three(launched(mpirun + " -n 3 --allow-run-as-root --oversubscribe"), "mpirun");
}

TEST(Launchers, ProcessesOfHydraMeet) {
  if (!found("mpiexec.hydra")) GTEST_SKIP() << "no mpiexec.hydra here (Debian: apt-get install mpich)";
  expect_meeting_of_three(launched("mpiexec.hydra -n 3"), "mpiexec");
}

TEST(Launchers, ProcessesOfTorchrunMeet) {
  if (!found("torchrun")) GTEST_SKIP() << "no torchrun on PATH (pip install torch)";
  expect_meeting_of_three(launched("torchrun --standalone --nproc-per-node 3 --no-python"), "torchrun");
}

TEST(Launchers, ProcessesOfTwoTorchrunNodesMeetAtAPortDerivedFromTheMaster) {
  if (!found("torchrun")) GTEST_SKIP() << "no torchrun on PATH (pip install torch)";
  const std::string port = std::to_string(listen_at("127.0.0.1", 0, "")->port);
  // Two agents on one machine are two nodes to torchrun.
  const std::string both =
      launched("sh -c 'M=\"torchrun --nnodes 2 --nproc-per-node 1 --master-addr 127.0.0.1 --master-port " + port +
               " --no-python\"; "
               "$M --node-rank 1 \"$@\" & $M --node-rank 0 \"$@\"; wait' sh");
  EXPECT_NE(both.find("MET torchrun 0/2 local 0/1 got 0 1.5"), std::string::npos) << both;
  EXPECT_NE(both.find("MET torchrun 1/2 local 0/1 got 0 1.5"), std::string::npos) << both;
}

}  // namespace
}  // namespace busbw
