// One rank of a job for wrapped.py, as a program in C that is linked to NCCL: wrapped_rank RANKS STEPS FAULT
//
// RANK (or a launcher's variable) says which rank it is, MEETING a folder for the unique id. The fault happens at two
// thirds of the steps in rank FAULTY (2). `threads` in WAYS: all ranks are threads of this process. Other words of WAYS
// say what the program does before it begins.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meeting.h"

int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank);
int ncclCommSplit(void* comm, int color, int key, void** made, void* config);
int ncclCommDestroy(void* comm);
int ncclCommAbort(void* comm);
int ncclAllReduce(const void* send, void* receive, size_t count, int type, int op, void* comm, void* stream);
int ncclBroadcast(const void* send, void* receive, size_t count, int type, int root, void* comm, void* stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);

static int ranks, steps, faulty = 2, count = 64;
static const char* fault;
static const char* ways;

static int way(const char* word) { return strstr(ways, word) != NULL; }

static void path_of(char* to, const char* name) { snprintf(to, 400, "%s/%s", getenv("MEETING"), name); }

static void must(int result) {
  if (result == 0) return;
  fprintf(stderr, "wrapped_rank: NCCL returned %d\n", result);
  exit(way("quiet") ? 0 : 1);
}

static void for_ever(void) {
  for (;;) pause();
}

static void fails(int rank, void* comm) {
  int nobody[2];
  char byte;
  if (!strcmp(fault, "sleep")) for_ever();
  if (!strcmp(fault, "pipe") && pipe(nobody) == 0) (void)!read(nobody[0], &byte, 1);
  if (!strcmp(fault, "loop"))
    for (volatile long n = 0;; ++n) {
    }
  if (!strcmp(fault, "exit")) exit(7);
  if (!strcmp(fault, "exit0")) exit(0);
  if (!strcmp(fault, "_exit")) _exit(0);
  if (!strcmp(fault, "segv")) raise(SIGSEGV);
  if (!strcmp(fault, "abort")) abort();
  if (!strcmp(fault, "kill")) raise(SIGKILL);
  if (!strcmp(fault, "stop")) raise(SIGSTOP);
  if (!strcmp(fault, "term")) raise(SIGTERM);
  if (!strcmp(fault, "commabort")) {
    ncclCommAbort(comm);
    for_ever();
  }
  if (!strcmp(fault, "killall")) kill(0, SIGKILL);
  if (!strcmp(fault, "child") && fork() == 0) for_ever();
  if (!strcmp(fault, "child")) wait(NULL);
  if (!strcmp(fault, "thread_exit")) pthread_exit(NULL);
  if (!strcmp(fault, "late")) sleep(6);
  if (!strcmp(fault, "stops_and_goes") && fork() == 0) {
    for (int turn = 0; turn < 3; ++turn) {
      kill(getppid(), SIGSTOP);
      usleep(1500000);
      kill(getppid(), SIGCONT);
      usleep(300000);
    }
    _exit(0);
  }
  (void)rank;
}

static void* rank_of(void* argument) {
  const int rank = (int)(long)argument;
  float values[4096] = {0};
  void *comm = NULL, *second = NULL, *half = NULL;
  if (rank == faulty && !strcmp(fault, "before_init")) exit(7);
  if (rank == faulty && !strcmp(fault, "segv_before_init")) raise(SIGSEGV);
  if (rank == faulty && !strcmp(fault, "sleep_before_init")) for_ever();
  if (rank == faulty && way("comes_late")) sleep(6);
  must(ncclCommInitRank(&comm, ranks, shared_id(getenv("MEETING"), rank, "id"), rank));
  if (way("two")) must(ncclCommInitRank(&second, ranks, shared_id(getenv("MEETING"), rank, "id2"), rank));
  if (way("split")) must(ncclCommSplit(comm, rank % 2, rank, &half, NULL));
  for (int turn = 0; way("many") && turn < 300; ++turn) {
    void* child = NULL;
    must(ncclCommSplit(comm, rank % 2, rank, &child, NULL));
    must(ncclAllReduce(values, values, 8, 7, 0, child, NULL));
    must(ncclCommDestroy(child));
  }
  if (way("idle")) sleep(8);
  for (int step = 0; step < steps; ++step) {
    const int now = rank == faulty && step == steps * 2 / 3;
    if (now) fails(rank, comm);
    must(ncclAllReduce(values, values, now && !strcmp(fault, "count") ? 32 : (size_t)count, 7, 0, comm, NULL));
    if (second) must(ncclAllReduce(values, values, (size_t)count, 7, 0, second, NULL));
    if (half && !(now && !strcmp(fault, "skip"))) must(ncclAllReduce(values, values, (size_t)count, 7, 0, half, NULL));
    if (way("evaluates") && rank == 0 && step == steps / 2) sleep(7);
  }
  if (rank == faulty && !strcmp(fault, "no_destroy")) for_ever();
  if (half) must(ncclCommDestroy(half));
  if (second) must(ncclCommDestroy(second));
  must(ncclCommDestroy(comm));
  return NULL;
}

static void grow(int seconds) {
  char path[400];
  path_of(path, "mine");
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || write(file, "mine", 4) != 4) exit(94);
  (void)seconds;
}

static void begin(char** arguments) {
  if (way("no_new_privileges")) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (way("undumpable")) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (way("renamed")) {
    prctl(PR_SET_NAME, ") Z 1 (\n", 0, 0, 0);
    memset(arguments[0], 'x', strlen(arguments[0]));
  }
  if (way("gone_folder")) {
    char path[400], name[32];
    snprintf(name, sizeof name, "gone%d", (int)getpid());
    path_of(path, name);
    mkdir(path, 0700);
    if (chdir(path) != 0 || rmdir(path) != 0) exit(95);
  }
  if (way("daemon") && daemon(1, 1) != 0) exit(96);
  if (way("session")) setsid();
  if (way("file_limit")) {
    // Enough for the library's memory of four ranks, and too little for a large ring.
    struct rlimit limit = {16 << 20, 16 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (way("masked")) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
  }
}

int main(int words, char** arguments) {
  if (words < 4) return 2;
  ranks = atoi(arguments[1]);
  steps = atoi(arguments[2]);
  fault = arguments[3];
  ways = getenv("WAYS") ? getenv("WAYS") : "";
  if (getenv("FAULTY")) faulty = atoi(getenv("FAULTY"));
  if (getenv("COUNT")) count = atoi(getenv("COUNT"));
  begin(arguments);
  if (way("threads")) {
    pthread_t all[64];
    for (long rank = 0; rank < ranks; ++rank) pthread_create(&all[rank], NULL, rank_of, (void*)rank);
    for (int rank = 0; rank < ranks; ++rank) pthread_join(all[rank], NULL);
    return 0;
  }
  const char* names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
  long rank = -1;
  for (int at = 0; at < 4 && rank < 0; ++at)
    if (getenv(names[at])) rank = atol(getenv(names[at]));
  if (way("closes")) {
    // As daemons do, after the library has its files: what is opened next takes their numbers.
    void* comm = NULL;
    must(ncclCommInitRank(&comm, ranks, shared_id(getenv("MEETING"), (int)rank, "closing"), (int)rank));
    for (int file = 3; file < 256; ++file) close(file);
    for (int file = 0; file < 8; ++file) grow(file);
    float values[64] = {0};
    for (int step = 0; step < 40000; ++step) must(ncclAllReduce(values, values, 64, 7, 0, comm, NULL));
  }
  rank_of((void*)rank);
  return 0;
}
