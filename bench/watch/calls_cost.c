// What a call of NCCL costs, as a program that links NCCL and CUDA's runtime sees it: see gpus.py beside it.
//
//     calls_cost FOLDER
//
// Rank and size come from RANK and RANKS. All-reduces of 1 KiB: the host's part of an eager call, all of it, and one of a
// graph of 100. Where PLAIN names the file of an NCCL, each block of calls is made through that too, in turns, so that
// what stands in front of the linked one is seen without the difference between two starts. With HOST defined it is in
// host memory, without graphs; with FAKE it is over the CUDA without a GPU of the tests, in this thread's time of
// a processor, which a busy machine changes less. Rank 0 prints one line of JSON with medians of the blocks, in
// nanoseconds a call.
#include <dlfcn.h>
#include <stdint.h>
#include <time.h>

#include "nccl_calls.h"
#ifdef HOST
typedef void* cudaStream_t;
#elif defined(FAKE)
#include "no_gpu.h"
#else
#include <cuda_runtime_api.h>
#endif

#ifdef FAKE
#define CLOCK CLOCK_THREAD_CPUTIME_ID
#else
#define CLOCK CLOCK_MONOTONIC
#endif

enum { COUNT = 256, CALLS = 200, BLOCKS = 120, NODES = 100, LAUNCHES = 10, WARM = 5 };

typedef int (*AllReduce)(const void*, void*, size_t, int, int, Comm, void*);
typedef int (*InitRank)(Comm*, int, UniqueId, int);

struct Way {
  const char* name;
  AllReduce all_reduce;
  InitRank init;
  Comm comm;
  double host[BLOCKS], whole[BLOCKS], graph[BLOCKS];
};

static float *from, *to;
static cudaStream_t stream;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

static void check(int result, const char* what) {
  if (result == 0) return;
  fprintf(stderr, "calls_cost: %s failed with %d\n", what, result);
  exit(1);
}

static void prepare(int rank) {
#ifdef HOST
  (void)rank;
  from = calloc(COUNT, sizeof *from), to = calloc(COUNT, sizeof *to);
#else
  check(cudaSetDevice(rank), "cudaSetDevice");
  check(cudaMalloc((void**)&from, COUNT * sizeof *from), "cudaMalloc");
  check(cudaMalloc((void**)&to, COUNT * sizeof *to), "cudaMalloc");
  check(cudaMemset(from, 0, COUNT * sizeof *from), "cudaMemset");
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
#endif
}

static void finish(void) {
#ifndef HOST
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
#endif
}

static void call(const struct Way* way, int times) {
  for (int at = 0; at < times; ++at)
    check(way->all_reduce(from, to, COUNT, float32, sum, way->comm, stream), "ncclAllReduce");
}

static void eager(struct Way* way, int block) {
  finish();
  double begun = now();
  call(way, CALLS);
  double called = now();
  finish();
  way->host[block] = (called - begun) / CALLS;
  way->whole[block] = (now() - begun) / CALLS;
}

#ifndef HOST
static cudaGraphExec_t captured(const struct Way* way) {
  cudaGraph_t graph;
  cudaGraphExec_t made;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  call(way, NODES);
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiateWithFlags(&made, graph, 0), "cudaGraphInstantiateWithFlags");
  return made;
}

static void launches(struct Way* way, cudaGraphExec_t made, int block) {
  finish();
  double begun = now();
  for (int at = 0; at < LAUNCHES; ++at) check(cudaGraphLaunch(made, stream), "cudaGraphLaunch");
  finish();
  way->graph[block] = (now() - begun) / (LAUNCHES * NODES);
}
#endif

static int ascending(const void* one, const void* other) {
  double a = *(const double*)one, b = *(const double*)other;
  return (a > b) - (a < b);
}

static double middle(const double* values) {
  double sorted[BLOCKS];
  memcpy(sorted, values, sizeof sorted);
  qsort(sorted + WARM, BLOCKS - WARM, sizeof *sorted, ascending);
  return sorted[WARM + (BLOCKS - WARM) / 2];
}

// The linked way's blocks less the plain way's: the median of the pairs.
static double apart(const double* linked, const double* plain) {
  double more[BLOCKS];
  for (int at = 0; at < BLOCKS; ++at) more[at] = linked[at] - plain[at];
  return middle(more);
}

static void plain_way(struct Way* way, const char* file) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) fprintf(stderr, "calls_cost: %s\n", dlerror()), exit(1);
  *(void**)&way->all_reduce = dlsym(library, "ncclAllReduce");
  *(void**)&way->init = dlsym(library, "ncclCommInitRank");
  way->name = "plain";
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "calls_cost FOLDER\n"), 2;
  int rank = atoi(getenv("RANK")), ranks = atoi(getenv("RANKS")), ways = 1;
  static struct Way way[2];
  way[0].name = "linked", way[0].all_reduce = ncclAllReduce, way[0].init = ncclCommInitRank;
  if (getenv("PLAIN")) plain_way(&way[ways++], getenv("PLAIN"));
  prepare(rank);
  for (int each = 0; each < ways; ++each)
    check(way[each].init(&way[each].comm, ranks, shared_id(argv[1], rank, way[each].name), rank), "ncclCommInitRank");
  for (int block = 0; block < BLOCKS; ++block)
    for (int each = 0; each < ways; ++each) eager(&way[(block + each) % ways], block);
#ifndef HOST
  cudaGraphExec_t made[2];
  for (int each = 0; each < ways; ++each) made[each] = captured(&way[each]);
  for (int block = 0; block < BLOCKS; ++block)
    for (int each = 0; each < ways; ++each)
      launches(&way[(block + each) % ways], made[(block + each) % ways], block);
#endif
  if (rank == 0) {
    printf("{\"host\": %.1f, \"eager\": %.1f, \"graph\": %.1f", middle(way->host), middle(way->whole),
           middle(way->graph));
    if (ways == 2)
      printf(", \"host_more\": %.1f, \"eager_more\": %.1f, \"graph_more\": %.1f", apart(way->host, way[1].host),
             apart(way->whole, way[1].whole), apart(way->graph, way[1].graph));
    printf("}\n");
  }
  return 0;
}
