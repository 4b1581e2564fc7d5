// A program that uses NCCL and CUDA as libraries, for tests of the recorder:
// busbw_test_gpu_user graphs|times|hidden|fork|spin RANK|calls NUMBER|launches NUMBER CALLS. The last two print their
// processor time.
#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "busbw/nccl_abi.h"

extern "C" {
ncclCommInitRank_t ncclCommInitRank;
ncclCommDestroy_t ncclCommDestroy;
ncclGroupStart_t ncclGroupStart;
ncclGroupEnd_t ncclGroupEnd;
ncclAllReduce_t ncclAllReduce;
ncclSend_t ncclSend;
ncclRecv_t ncclRecv;
void fakeCudaWork(const void*, double);
int cudaStreamBeginCapture(const void*, int);
int cudaStreamEndCapture(const void*, void**);
int cudaStreamSynchronize(const void*);
int cudaGraphCreate(void**, unsigned);
int cudaGraphInstantiate(void**, void*, unsigned long long);
int cudaGraphLaunch(void*, const void*);
int cudaGraphExecUpdate(void*, void*, void*);
int cudaGraphClone(void**, void*);
int cudaGraphAddChildGraphNode(void**, void*, const void*, std::size_t, void*);
int cudaGraphDestroy(void*);
int cudaGraphExecDestroy(void*);
}

namespace {

const auto stream = reinterpret_cast<ncclStream_t>(0x1000);
const auto other = reinterpret_cast<ncclStream_t>(0x2000);
ncclComm_t first = nullptr, second = nullptr;

void must(int result, const char* what) {
  if (result == 0) return;
  std::printf("%s: %d\n", what, result);
  std::exit(1);
}
#define MUST(call) must(static_cast<int>(call), #call)

void all_reduce(ncclComm_t comm, std::size_t count, ncclStream_t on = stream) {
  MUST(ncclAllReduce(nullptr, nullptr, count, ncclFloat32, ncclSum, comm, on));
}

void* captured(std::size_t count, int calls) {
  void* graph = nullptr;
  MUST(cudaStreamBeginCapture(stream, 0));
  for (int i = 0; i < calls; ++i) all_reduce(i % 2 ? second : first, count);
  MUST(cudaStreamEndCapture(stream, &graph));
  return graph;
}

void* executable(void* graph) {
  void* made = nullptr;
  MUST(cudaGraphInstantiate(&made, graph, 0));
  return made;
}

void graphs() {
  all_reduce(first, 1);
  void* two = captured(10, 2);
  void* run = executable(two);
  for (int i = 0; i < 3; ++i) MUST(cudaGraphLaunch(run, stream));  // 10 10, three times
  void* clone = nullptr;
  MUST(cudaGraphClone(&clone, two));
  MUST(cudaGraphDestroy(two));
  void *parent = nullptr, *node = nullptr;
  MUST(cudaGraphCreate(&parent, 0));
  MUST(cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, clone));
  void* run_parent = executable(parent);
  MUST(cudaGraphLaunch(run_parent, other));  // 10 10 on the other stream
  void* one = captured(20, 1);
  MUST(cudaGraphExecUpdate(run, one, nullptr));
  MUST(cudaGraphLaunch(run, stream));  // 20
  // A launch that is captured runs nothing, and makes a part of another graph.
  void* both = nullptr;
  MUST(cudaStreamBeginCapture(stream, 0));
  MUST(cudaGraphLaunch(run, stream));
  all_reduce(second, 30);
  MUST(cudaStreamEndCapture(stream, &both));
  void* run_both = executable(both);
  MUST(cudaGraphLaunch(run_both, stream));  // 20 30
  MUST(cudaGraphExecDestroy(run_both));
  // A graph without calls may get the handle of one that had some.
  for (int i = 0; i < 50; ++i) {
    void *empty = nullptr, *had = captured(40, 1);
    MUST(cudaGraphDestroy(had));
    MUST(cudaGraphCreate(&empty, 0));
    void* nothing = executable(empty);
    MUST(cudaGraphLaunch(nothing, stream));
    MUST(cudaGraphExecDestroy(nothing));
    MUST(cudaGraphDestroy(empty));
  }
  if (cudaGraphLaunch(nullptr, stream) == 0) std::exit(1);
  all_reduce(first, 2);
}

void times() {
  for (std::size_t i = 1; i <= 20; ++i) {
    all_reduce(first, 100 * i);
    if (i % 5 == 0) MUST(cudaStreamSynchronize(stream));
  }
  // Both wait behind the first of the group, and one on a stream of its own does not.
  MUST(ncclGroupStart());
  all_reduce(first, 300);
  all_reduce(second, 200);
  all_reduce(first, 50, other);
  MUST(ncclGroupEnd());
  captured(60, 4);
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaStreamSynchronize(other));
}

// As a program whose CUDA runtime is linked in, or that asks the driver for addresses: no table leads to the recorder.
void hidden() {
  using Begin = int(const void*, int);
  auto* begin = reinterpret_cast<Begin*>(dlsym(RTLD_DEFAULT, "cuStreamBeginCapture_v2"));
  all_reduce(first, 1);
  for (const int calls : {100, 10}) {
    void* graph = nullptr;
    MUST(begin(stream, 0));
    for (int i = 0; i < calls; ++i) all_reduce(first, std::size_t(calls));
    MUST(cudaStreamEndCapture(stream, &graph));
  }
  all_reduce(first, 2);
}

// The child's call is not the parent's.
void in_a_child() {
  all_reduce(first, 1);
  const pid_t child = fork();
  if (child == 0) {
    // It makes no recording of its own.
    setenv("BUSBW_RECORD_DIR", "", 1);
    all_reduce(first, 77);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  all_reduce(first, 2);
}

// Before the third call of rank 1 there is work that never ends; then nothing is called until stdin ends.
void spin(int rank) {
  for (std::size_t i = 1; i <= 2; ++i) all_reduce(first, i);
  MUST(cudaStreamSynchronize(stream));
  if (rank == 1) fakeCudaWork(stream, 1e18);
  usleep(1000);  // longer than between two marks
  all_reduce(first, 3);
  std::puts("called");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

// Of this thread: a busy machine changes it little.
double processor_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) * 1e9 + double(now.tv_nsec);
}

void calls(int number) {
  const double start = processor_ns();
  for (int i = 0; i < number; ++i) all_reduce(first, 1);
  std::printf("%.1f ns a call\n", (processor_ns() - start) / number);
}

void launches(int number, int calls) {
  void* run = executable(captured(1, calls));
  const double start = processor_ns();
  for (int i = 0; i < number; ++i) MUST(cudaGraphLaunch(run, stream));
  std::printf("%.1f ns a launch\n", (processor_ns() - start) / number);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  ncclUniqueId id{};
  const int rank = what == "spin" && count > 2 ? std::atoi(arguments[2]) : 0;
  MUST(ncclCommInitRank(&first, 2, id, rank));
  id.internal[0] = 1;
  MUST(ncclCommInitRank(&second, 2, id, 1 - rank));
  if (what == "graphs") graphs();
  if (what == "times") times();
  if (what == "hidden") hidden();
  if (what == "fork") in_a_child();
  if (what == "spin") spin(rank);
  if (what == "calls" && count > 2) calls(std::atoi(arguments[2]));
  if (what == "launches" && count > 3) launches(std::atoi(arguments[2]), std::atoi(arguments[3]));
  MUST(ncclCommDestroy(first));
  MUST(ncclCommDestroy(second));
  return 0;
}
