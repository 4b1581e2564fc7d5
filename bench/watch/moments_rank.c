// One rank of a job for moments.py: a program of calls that is drawn from a seed, with one fault at a drawn call.
//
// RANK, WORLD, STEPS, SEED, AT (the fault's call), FAULTY (its rank), FAULT and MEET (a folder) say the rest. The
// program has communicators of all ranks, of rows and of columns; its calls are drawn alike on all ranks.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nccl_calls.h"

enum { most_calls = 12, comms = 4 };
enum Kind { all_reduce, all_gather, reduce_scatter, broadcast, reduce, ring, grouped, again, kinds };

struct Op {
  enum Kind kind;
  int comm;
  size_t count;
  int root;
};

static int rank, world, steps, at, faulty, calls, me_on[comms], size_of[comms];
static const char *fault, *meet;
static float from[1 << 18], to[1 << 18];
static Comm on[comms];
static struct Op program[most_calls];
static unsigned long long state;

static unsigned draw(unsigned most) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (unsigned)(state >> 20) % most;
}

static int is(const char* word) { return strcmp(fault, word) == 0; }

static void must(int result) {
  if (result != 0) exit(1);
}

static void note(const char* name, int number) {
  char path[500];
  struct timespec now;
  snprintf(path, sizeof path, "%s/%s.%d", meet, name, number);
  FILE* file = fopen(path, "w");
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!file || fprintf(file, "%d %.3f", (int)getpid(), (double)now.tv_sec + (double)now.tv_nsec / 1e9) < 0) exit(90);
  fclose(file);
}

static void wait_for_ever(void) {
  for (;;) sleep(600);
}

// Of another process, a drawn while later, wherever this one is by then.
static void from_outside(void) {
  const pid_t me = getpid();
  if (fork() != 0) return;
  usleep(draw(300000));
  note("fault", rank);
  if (is("kill")) kill(me, SIGKILL);
  if (is("stop")) kill(me, SIGSTOP);
  if (is("segv")) kill(me, SIGSEGV);
  if (is("debugger") && ptrace(PTRACE_ATTACH, me, NULL, NULL) == 0) {
    waitpid(me, NULL, __WALL);
    for (int turn = 0; turn < 600 && kill(me, 0) == 0; ++turn) usleep(100000);
  }
  _exit(0);
}

static void runs_out_of_memory(void) {
  const struct rlimit limit = {1 << 28, 1 << 28};
  setrlimit(RLIMIT_AS, &limit);
  for (char* more = malloc(1 << 20); more; more = malloc(1 << 20)) memset(more, 1, 1 << 20);
  abort();
}

static void new_communicator(const char* name) {
  Comm made;
  must(ncclCommInitRank(&made, world, shared_id(meet, rank, name), rank));
  must(ncclAllReduce(from, to, 8, float32, sum, made, NULL));
  must(ncclCommDestroy(made));
}

// By itself, or together with the others; 1 where the call is left out.
static int happens(const struct Op* op) {
  const int mine = rank == faulty;
  if (is("nosplit") || is("noinit") || is("splitgroup")) {
    if (mine) note("fault", rank), wait_for_ever();
    if (is("noinit")) new_communicator("later");
    if (is("splitgroup")) must(ncclGroupStart());
    Comm made;
    must(ncclCommSplit(on[op->comm], 0, rank, &made, NULL));
    if (is("splitgroup")) must(ncclGroupEnd());
    wait_for_ever();
  }
  if (is("colour")) {
    Comm made;
    const int color = rank % 2 ^ mine;
    if (mine) note("fault", rank);
    must(ncclCommSplit(on[0], color, rank, &made, NULL));
    for (int each = 0; each < 4; ++each) must(ncclAllReduce(from, to, rank % 2 ? 64 : 32, float32, sum, made, NULL));
    return 0;
  }
  if (!mine) return 0;
  if (is("kill") || is("stop") || is("segv") || is("debugger")) return from_outside(), 0;
  note("fault", rank);
  if (is("memory")) runs_out_of_memory();
  if (is("exception")) exit(1);
  if (is("exit0")) exit(0);
  if (is("endexit0")) {
    for (int each = 0; each < comms; ++each) ncclCommDestroy(on[each]);
    exit(0);
  }
  if (is("abortwait") || is("abortexit")) {
    for (int each = 0; each < comms; ++each) ncclCommAbort(on[each]);
    if (is("abortexit")) exit(1);
    wait_for_ever();
  }
  if (is("abortone")) ncclCommAbort(on[op->comm]), wait_for_ever();
  if (is("sleep")) wait_for_ever();
  if (is("late")) sleep(10);
  if (is("half")) usleep(2000000);
  if (is("loop"))
    for (volatile long n = 0;; ++n) {
    }
  if (is("exec")) execlp("sleep", "sleep", "600", (char*)NULL);
  if (is("opengroup")) ncclGroupStart();
  if (is("send")) must(ncclSend(from, 64, float32, (me_on[op->comm] + 1) % size_of[op->comm], on[op->comm], NULL));
  if (is("recv")) must(ncclRecv(to, 64, float32, (me_on[op->comm] + 1) % size_of[op->comm], on[op->comm], NULL));
  return is("skip");
}

// As the program says, but for what the fault changes.
static void call(const struct Op* op, int wrong) {
  const Comm comm = on[op->comm];
  const int me = me_on[op->comm], size = size_of[op->comm];
  const size_t count = op->count + (wrong && is("count"));
  const int type = wrong && is("type") ? int32 : float32, func = wrong && is("op") ? max : sum;
  const int root = (op->root + (wrong && is("root"))) % size;
  const enum Kind kind = wrong && is("kind") ? (op->kind == all_gather ? all_reduce : all_gather) : op->kind;
  switch (kind) {
    case all_reduce: must(ncclAllReduce(from, to, count, type, func, comm, NULL)); break;
    case all_gather: must(ncclAllGather(from, to, count, type, comm, NULL)); break;
    case reduce_scatter: must(ncclReduceScatter(from, to, count, type, func, comm, NULL)); break;
    case broadcast: must(ncclBroadcast(from, to, count, type, root, comm, NULL)); break;
    case reduce: must(ncclReduce(from, to, count, type, func, root, comm, NULL)); break;
    case ring:
      must(ncclGroupStart());
      if (!(wrong && is("nosend"))) must(ncclSend(from, count, type, (me + 1) % size, comm, NULL));
      if (!(wrong && is("norecv"))) must(ncclRecv(to, op->count, float32, (me + size - 1) % size, comm, NULL));
      must(ncclGroupEnd());
      break;
    case grouped:
      must(ncclGroupStart());
      must(ncclAllReduce(from, to, count, type, func, comm, NULL));
      if (!(wrong && is("shortgroup"))) must(ncclAllReduce(from, to, op->count, float32, sum, comm, NULL));
      must(ncclGroupEnd());
      break;
    default: {
      Comm made;
      must(ncclCommSplit(comm, 0, rank, &made, NULL));
      must(ncclAllReduce(from, to, count, type, func, made, NULL));
      must(ncclCommDestroy(made));
    }
  }
}

static int suits(const struct Op* op, const struct Op* next) {
  if (is("root")) return op->kind == broadcast || op->kind == reduce;
  if (is("op")) return op->kind == all_reduce || op->kind == reduce_scatter || op->kind == reduce || op->kind == grouped;
  if (is("count") || is("type") || is("kind")) return op->kind < ring;
  if (is("nosend") || is("norecv")) return op->kind == ring;
  if (is("shortgroup")) return op->kind == grouped;
  if (is("order")) return op->comm != next->comm && op->kind < ring && next->kind < ring;
  if (is("skip") || is("twice")) return op->kind < ring;
  return 1;
}

static void make_program(void) {
  calls = 3 + (int)draw(most_calls - 3);
  for (int each = 0; each < calls; ++each) {
    program[each].kind = (enum Kind)draw(kinds);
    program[each].comm = (int)draw(comms);
    program[each].count = 1 + draw(500);
    program[each].root = (int)draw(2);
  }
  // One of each kind that a fault may need, on communicators that differ.
  program[0] = (struct Op){broadcast, 0, 32, 1};
  program[1] = (struct Op){grouped, 1, 16, 0};
  program[2] = (struct Op){ring, 2, 16, 0};
  if (calls < 5) calls = 5;
  program[3] = (struct Op){all_reduce, 3, 64, 0};
  program[4] = (struct Op){reduce_scatter, 1, 16, 0};
}

static void make_communicators(void) {
  const int wide = world / 2;
  must(ncclCommInitRank(&on[0], world, shared_id(meet, rank, "all"), rank));
  must(ncclCommSplit(on[0], rank / wide, rank, &on[1], NULL));
  must(ncclCommSplit(on[0], rank % wide / 2, -rank, &on[2], NULL));
  must(ncclCommInitRank(&on[3], world, shared_id(meet, rank, "same"), rank));
  for (int each = 0; each < comms; ++each) {
    must(ncclCommUserRank(on[each], &me_on[each]));
    must(ncclCommCount(on[each], &size_of[each]));
  }
}

int main(void) {
  rank = atoi(getenv("RANK")), world = atoi(getenv("WORLD")), steps = atoi(getenv("STEPS"));
  at = atoi(getenv("AT")), faulty = atoi(getenv("FAULTY")), fault = getenv("FAULT"), meet = getenv("MEET");
  state = strtoull(getenv("SEED"), NULL, 10) * 2654435761u + 88172645463325252u;
  make_program();
  make_communicators();
  note("pid", rank);
  int done = 0, number = 0;
  for (int step = 0; step < steps; ++step) {
    for (int each = 0; each < calls; ++each, ++number) {
      const struct Op *op = &program[each], *next = &program[(each + 1) % calls];
      int wrong = 0;
      if (!done && number >= at && suits(op, next) && each + 1 < calls) {
        done = 1, wrong = rank == faulty;
        if (happens(op)) continue;
        if (wrong && is("twice")) call(op, 0);
        if (wrong && is("order")) {
          call(next, 0), call(op, 0);
          ++each, ++number;
          continue;
        }
      }
      call(op, wrong);
    }
    usleep(1000);
  }
  for (int each = 0; each < comms; ++each) ncclCommDestroy(on[each]);
  return 0;
}
