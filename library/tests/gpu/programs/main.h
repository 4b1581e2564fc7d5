// The command line of programs that try cases over any NCCL: which cases, on how many GPUs, by threads or processes.
#pragma once

#include <cstdlib>

#include "library/tests/gpu/programs/ranks.h"

namespace programs {

// In a process of its own: a driver that was used before a fork works in neither of the two.
inline int count_gpus() {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) return 0;
  const pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    const Cuda* cuda = find_cuda();
    if (!cuda || cuda->init(0) != cuda_success || cuda->device_count(&count) != cuda_success) count = 0;
    ::_exit(::write(pipe_ends[1], &count, sizeof count) == sizeof count ? 0 : 1);
  }
  ::close(pipe_ends[1]);
  int count = 0;
  if (::read(pipe_ends[0], &count, sizeof count) != sizeof count) count = 0;
  ::close(pipe_ends[0]);
  ::waitpid(child, nullptr, 0);
  return count;
}

// `all_cases` takes how long random cases are.
inline int run(int argc, char** argv, const std::function<std::vector<Case>(int epochs)>& all_cases) {
  std::string only;
  std::string kinds = "threads,processes";
  int most = most_ranks;
  int patience = 15;
  int epochs = 25;
  bool share = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (option == "--only") {
      only = value();
    } else if (option == "--kinds") {
      kinds = value();
    } else if (option == "--gpus") {
      most = std::atoi(value().c_str());
    } else if (option == "--patience") {
      patience = std::atoi(value().c_str());
    } else if (option == "--share") {
      share = true;
    } else if (option == "--epochs") {
      epochs = std::atoi(value().c_str());
    } else {
      std::printf(
          "usage: %s [--only PART_OF_A_NAME] [--kinds threads,processes] [--gpus MOST] [--patience SECONDS] "
          "[--epochs OF_RANDOM_CALLS] [--share]\n"
          "--share: processes on one GPU, under MPS, each a host of its own for NCCL\n",
          argv[0]);
      return option == "--help" ? 0 : 2;
    }
  }
  int gpus = count_gpus();
  if (share && gpus >= 1) gpus = most_ranks;
  if (share) kinds = "processes";
  gpus = std::min(gpus, most);
  if (gpus < 2) {
    std::printf("skipped: no GPU, or one only\n");
    return 77;
  }
  std::printf("%s in front of NCCL\n", dlsym(RTLD_DEFAULT, "busbwExplainCall") ? "busbw's GPU library" : "nothing");
  Jobs jobs(all_cases(epochs), patience, share);
  for (const int ranks : {2, 4}) {
    if (ranks > gpus) continue;
    if (kinds.find("threads") != std::string::npos) jobs.run(Kind::threads, ranks, only);
    if (kinds.find("processes") != std::string::npos) jobs.run(Kind::processes, ranks, only);
  }
  std::printf("%d passed, %d failed, %d skipped\n", jobs.count(passed), jobs.count(failed), jobs.count(skipped));
  return jobs.count(failed) == 0 ? 0 : 1;
}

// The same, and a sentence where it throws.
inline int main_of(int argc, char** argv, const std::function<std::vector<Case>(int epochs)>& all_cases) {
  try {
    return run(argc, argv, all_cases);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}

}  // namespace programs
