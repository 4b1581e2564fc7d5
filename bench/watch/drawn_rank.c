// One rank of a job for drawn.py, as a program in C that is linked to our CPU library: drawn_rank SHAPE FAULT
//
// RANK (or a launcher's variable), WORLD, STEPS, AT (the fault's step), FAULTY (its rank) and MEET (a folder) say the
// rest. Each rank writes its process's number into the folder, and the faulty one when its fault happens.
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nccl_calls.h"

enum { usual = 256 };

static int rank, world, steps, at, faulty;
static const char *shape, *fault, *meet;
static float from[1 << 16], to[1 << 16];
static Comm all, row, column, nested, many[100];

// How the next call differs in the faulty rank.
static size_t count = usual;
static int type = float32, op = sum, root_off, skips, once_more;

static int is(const char* word) { return strcmp(fault, word) == 0; }

static void must(int result) {
  if (result != 0) exit(1);
}

static void note(const char* name) {
  char path[500];
  struct timespec now;
  snprintf(path, sizeof path, "%s/%s.%d", meet, name, rank);
  FILE* file = fopen(path, "w");
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!file || fprintf(file, "%d %.3f", (int)getpid(), (double)now.tv_sec + (double)now.tv_nsec / 1e9) < 0) exit(90);
  fclose(file);
}

static void* holds(void* lock) {
  pthread_mutex_lock(lock);
  for (;;) pause();
  return NULL;
}

static int empty_pipe(void) {
  int ends[2];
  if (pipe(ends) != 0) exit(94);
  return ends[0];
}

static void waits_for_a_lock(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_t other;
  pthread_create(&other, NULL, holds, &lock);
  usleep(50000);
  pthread_mutex_lock(&lock);
}

static void waits_for_a_file(void) {
  char path[500];
  snprintf(path, sizeof path, "%s/lock", meet);
  flock(open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600), LOCK_EX);
  flock(open(path, O_RDWR | O_CLOEXEC), LOCK_EX);
}

static void waits_for_a_connection(void) {
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int door = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(door, (struct sockaddr*)&here, sizeof here) == 0 && listen(door, 1) == 0) accept(door, NULL, NULL);
}

static void waits_for_a_child(void) {
  const pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  waitpid(child, NULL, 0);
}

static void runs_out_of_memory(void) {
  const struct rlimit limit = {1 << 28, 1 << 28};
  setrlimit(RLIMIT_AS, &limit);
  for (char* more = malloc(1 << 20); more; more = malloc(1 << 20)) memset(more, 1, 1 << 20);
  abort();
}

// Goes on one second later, or two.
static void stops_for_a_while(void) {
  const pid_t me = getpid();
  if (fork() == 0) {
    usleep(1800000);
    kill(me, SIGCONT);
    _exit(0);
  }
  kill(me, SIGSTOP);
}

static int dies(void) {
  static const struct {
    const char* name;
    int number;
  } signals[] = {{"sigkill", SIGKILL}, {"sigsegv", SIGSEGV}, {"sigabrt", SIGABRT}, {"sigbus", SIGBUS},
                 {"sigfpe", SIGFPE},   {"sigill", SIGILL},   {"sigterm", SIGTERM}, {"sighup", SIGHUP},
                 {"sigpipe", SIGPIPE}, {"sigusr1", SIGUSR1}, {"sigxcpu", SIGXCPU}, {"sigsys", SIGSYS},
                 {"sigalrm", SIGALRM}, {"sigstop", SIGSTOP}};
  for (size_t each = 0; each < sizeof signals / sizeof *signals; ++each) {
    if (!is(signals[each].name)) continue;
    kill(getpid(), signals[each].number);
    usleep(100000);
    return 1;
  }
  if (is("exit0")) exit(0);
  if (is("exit3")) exit(3);
  if (is("_exit0")) _exit(0);
  if (is("memory")) runs_out_of_memory();
  if (is("exec")) execlp("sleep", "sleep", "600", (char*)NULL);
  if (is("thread_exit")) pthread_exit(NULL);
  return 0;
}

static int waits(void) {
  char byte;
  struct pollfd nothing = {-1, POLLIN, 0};
  sem_t nobody;
  if (is("mutex")) return waits_for_a_lock(), 1;
  if (is("flock")) return waits_for_a_file(), 1;
  if (is("accept")) return waits_for_a_connection(), 1;
  if (is("child")) return waits_for_a_child(), 1;
  if (is("system")) return system("sleep 600") != -2;
  if (is("pipe")) return read(empty_pipe(), &byte, 1) != -2;
  if (is("poll")) return poll(&nothing, 1, -1) != -2;
  if (is("semaphore")) return sem_init(&nobody, 0, 0) + sem_wait(&nobody) != -2;
  if (is("sleep")) return sleep(600) != 1;
  if (is("loop"))
    for (volatile long n = 0;; ++n) {
    }
  if (is("yield"))
    for (;;) sched_yield();
  if (is("half")) return usleep(2000000) != -2;
  if (is("stops")) return stops_for_a_while(), 1;
  if (is("abort") || is("destroy")) {
    is("abort") ? ncclCommAbort(all) : ncclCommDestroy(all);
    for (;;) pause();
  }
  return 0;
}

// What the faulty rank does at its step: something by itself, or a call that differs.
static void begin_step(int step) {
  count = usual, type = float32, op = sum, root_off = skips = once_more = 0;
  if (step == 1) note("pid");
  if (rank != faulty || step != at) return;
  note("fault");
  if (dies() || waits()) return;
  if (is("count")) count = usual - 1;
  if (is("type")) type = int32;
  if (is("op")) op = max;
  root_off = is("root"), skips = is("skip"), once_more = is("more");
}

static void reduce_on(Comm comm) {
  if (!skips) must(ncclAllReduce(from, to, count, type, op, comm, NULL));
  if (once_more) must(ncclAllReduce(from, to, count, type, op, comm, NULL));
}

static void data_parallel(int step) {
  (void)step;
  reduce_on(all);
  must(ncclAllReduce(from, to, 4096, float32, sum, all, NULL));
}

static void sharded(int step) {
  (void)step;
  for (int layer = 0; layer < 4; ++layer)
    if (!(skips && layer == 2)) must(ncclAllGather(from, to, usual, float32, all, NULL));
  if (once_more) must(ncclAllGather(from, to, usual, float32, all, NULL));
  for (int layer = 0; layer < 4; ++layer)
    must(ncclReduceScatter(from, to, usual, float32, layer == 2 ? op : sum, all, NULL));
}

static void roots(int step) {
  if (!skips) must(ncclBroadcast(from, from, count, type, (step + root_off) % world, all, NULL));
  must(ncclAllReduce(from, to, 8, float32, sum, all, NULL));
}

static void mesh(int step) {
  must(ncclAllGather(from, to, usual, float32, row, NULL));
  reduce_on(column);
  must(ncclReduceScatter(from, to, usual, float32, sum, row, NULL));
  if (step % 5 == 4) must(ncclAllReduce(from, to, 1, float32, sum, all, NULL));
}

static void within(int step) {
  (void)step;
  must(ncclAllReduce(from, to, 64, float32, sum, all, NULL));
  reduce_on(nested);
}

static void communicators(int step) {
  for (int each = 0; each < 100; ++each) {
    const int is_odd = each == 50;
    if (skips && is_odd) continue;
    Comm comm = many[(each * 7 + step) % 100];
    must(ncclAllReduce(from, to, is_odd ? count : usual, is_odd ? type : float32, sum, comm, NULL));
  }
}

static void ring(int step) {
  (void)step;
  must(ncclGroupStart());
  if (!skips) must(ncclSend(from, count, float32, (rank + 1) % world, all, NULL));
  must(ncclRecv(to, usual, float32, (rank + world - 1) % world, all, NULL));
  must(ncclGroupEnd());
  usleep(2000);
}

static void pipeline(int step) {
  (void)step;
  for (int part = 0; part < 4; ++part) {
    if (rank > 0) must(ncclRecv(to, usual, float32, rank - 1, all, NULL));
    if (rank < world - 1 && !(skips && part == 2))
      must(ncclSend(from, part == 2 ? count : usual, float32, rank + 1, all, NULL));
  }
  for (int part = 0; part < 4; ++part) {
    if (rank < world - 1) must(ncclRecv(to, 128, float32, rank + 1, all, NULL));
    if (rank > 0) must(ncclSend(from, 128, float32, rank - 1, all, NULL));
  }
  usleep(2000);
}

static void experts(int step) {
  (void)step;
  must(ncclGroupStart());
  for (int peer = 0; peer < world; ++peer) {
    const int is_odd = peer == (rank + 1) % world;
    if (!(skips && is_odd)) must(ncclSend(from, is_odd ? count : usual, float32, peer, all, NULL));
    must(ncclRecv(to + peer * usual, usual, float32, peer, all, NULL));
  }
  must(ncclGroupEnd());
  must(ncclAllReduce(from, to, 64, float32, op, all, NULL));
}

static void make_communicators(void) {
  must(ncclCommInitRank(&all, world, shared_id(meet, rank, "all"), rank));
  const int rows = world % 2 ? 1 : 2;
  must(ncclCommSplit(all, rank / (world / rows), rank, &row, NULL));
  must(ncclCommSplit(all, rank % (world / rows), rank, &column, NULL));
  must(ncclCommSplit(row, 0, -rank, &nested, NULL));
  for (int each = 0; strcmp(shape, "communicators") == 0 && each < 100; ++each)
    must(ncclCommSplit(all, 0, rank, &many[each], NULL));
}

int main(int words, char** arguments) {
  static const struct {
    const char* name;
    void (*step)(int);
  } shapes[] = {{"data_parallel", data_parallel},
                {"sharded", sharded},
                {"roots", roots},
                {"mesh", mesh},
                {"within", within},
                {"ring", ring},
                {"pipeline", pipeline},
                {"experts", experts},
                {"communicators", communicators}};
  const char* names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
  if (words < 3) return 2;
  rank = -1;
  for (int each = 0; each < 4 && rank < 0; ++each)
    if (getenv(names[each])) rank = atoi(getenv(names[each]));
  shape = arguments[1], fault = arguments[2], meet = getenv("MEET");
  world = atoi(getenv("WORLD")), steps = atoi(getenv("STEPS"));
  at = atoi(getenv("AT")), faulty = atoi(getenv("FAULTY"));
  make_communicators();
  for (size_t each = 0; each < sizeof shapes / sizeof *shapes; ++each) {
    if (strcmp(shape, shapes[each].name) != 0) continue;
    for (int step = 0; step < steps; ++step) {
      begin_step(step);
      shapes[each].step(step);
    }
  }
  ncclCommDestroy(all);
  return 0;
}
