// One rank of the jobs in C of plain_job.py: plain_rank RANKS STEPS FAULT FOLDER, with RANK in the environment.
//
// Each step is an all-reduce on two communicators of all ranks. The fault comes at two thirds of the steps.
#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "nccl_calls.h"

enum { count = 64, float64 = 8 };
static float values[2 * count];
static const char *fault, *folder;
static volatile int never;
static Comm comms[2];

static void all_reduce(Comm comm, size_t many, int type) {
  if (ncclAllReduce(values, values, many, type, sum, comm, 0) != 0) exit(80);
}

static void tell(void) {
  char path[400];
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(path, sizeof path, "%s/fault", folder);
  FILE* file = fopen(path, "w");
  if (!file) exit(81);
  fprintf(file, "%ld.%09ld", (long)now.tv_sec, now.tv_nsec);
  fclose(file);
}

static int is(const char* word, int me, int rank) {
  if (me != rank || strcmp(fault, word) != 0) return 0;
  tell();
  return 1;
}

static void* sleeps(void* nothing) {
  sleep(600);
  return nothing;
}

static void lock_twice(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_lock(&mutex);
}

static void read_from_nobody(void) {
  int ends[2];
  char byte;
  if (pipe(ends) != 0 || read(ends[0], &byte, 1) < 0) exit(82);
}

// A helper that the program waits for, and which waits for input.
static void wait_for_a_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    read_from_nobody();
    _exit(0);
  }
  waitpid(child, 0, 0);
}

static void end_of_main_thread(void) {
  pthread_t thread;
  pthread_create(&thread, 0, sleeps, 0);
  pthread_exit(0);
}

static void open_group(void) {
  ncclGroupStart();
  all_reduce(comms[0], count, float32);
  sleeps(0);
}

static void maybe(int me) {
  if (is("cspin", me, 2))
    while (!never) continue;
  if (is("cmutex", me, 1)) lock_twice();
  if (is("cassert", me, 3)) assert(never);
  if (is("cread", me, 0)) read_from_nobody();
  if (is("cgroup", me, 1)) open_group();
  if (is("csegv", me, 2)) *(volatile int*)8 = 1;
  if (is("cthread", me, 2)) end_of_main_thread();
  if (is("cchild", me, 1)) wait_for_a_child();
  if (strcmp(fault, "cfine") == 0) sleep((unsigned)(me == 2 ? 3 : 0));
}

int main(int argc, char** argv) {
  if (argc != 5 || !getenv("RANK")) return 83;
  const int ranks = atoi(argv[1]), steps = atoi(argv[2]), me = atoi(getenv("RANK"));
  fault = argv[3], folder = argv[4];
  for (int at = 0; at < 2; ++at) {
    const UniqueId id = shared_id(folder, me, at == 0 ? "first" : "second");
    if (ncclCommInitRank(&comms[at], ranks, id, me) != 0) return 84;
  }
  for (int step = 0; step < steps; ++step) {
    if (step == steps * 2 / 3) maybe(me);
    const int other = step == steps * 2 / 3 && is("ctype", me, 2);
    all_reduce(comms[0], other ? count / 2 : count, other ? float64 : float32);
    all_reduce(comms[1], count, float32);
  }
  for (int at = 0; at < 2; ++at) ncclCommDestroy(comms[at]);
  return 0;
}
