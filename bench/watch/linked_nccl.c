// The part of the NCCL API that a job of tests calls, over the library at REAL_CPU, with two faults to be told apart: a
// connection through a proxy that somebody may stop (LINK_PORT), and a rank that computes for ever within its call
// (BUSBW_FAULT=busy).
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct {
  char internal[128];
} UniqueId;

static void* real(const char* name) {
  static void* library;
  if (!library) library = dlopen(getenv("REAL_CPU"), RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, name) : NULL;
}

#define FORWARD(result, name, types, values)         \
  result name types {                                \
    static result(*function) types;                  \
    if (!function) *(void**)&function = real(#name); \
    return function values;                          \
  }

FORWARD(int, ncclGetVersion, (int* version), (version))
FORWARD(int, ncclGetUniqueId, (UniqueId * id), (id))
FORWARD(int, ncclCommInitRank, (void** comm, int ranks, UniqueId id, int rank), (comm, ranks, id, rank))
FORWARD(int, ncclCommDestroy, (void* comm), (comm))
FORWARD(int, ncclCommAbort, (void* comm), (comm))
FORWARD(int, ncclCommCount, (void* comm, int* count), (comm, count))
FORWARD(int, ncclCommUserRank, (void* comm, int* rank), (comm, rank))
FORWARD(int, ncclCommCuDevice, (void* comm, int* device), (comm, device))
FORWARD(const char*, ncclGetErrorString, (int result), (result))
FORWARD(const char*, ncclGetLastError, (void* comm), (comm))
FORWARD(const char*, busbwLibraryName, (void), ())
FORWARD(int, ncclGroupStart, (void), ())
FORWARD(int, ncclGroupEnd, (void), ())

typedef int AllReduce(const void*, void*, size_t, int, int, void*, void*);

static char data[1 << 18];

static int linked(const char* port) {
  struct sockaddr_in there;
  memset(&there, 0, sizeof there);
  there.sin_family = AF_INET;
  there.sin_port = htons((unsigned short)atoi(port));
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return connect(made, (struct sockaddr*)&there, sizeof there) == 0 ? made : -1;
}

// There and back, as data of a neighbour in a ring would come.
static void pass(int link) {
  size_t sent = 0, come = 0;
  while (come < sizeof data) {
    const size_t part = sizeof data - sent < 4096 ? sizeof data - sent : 4096;
    if (part > 0) {
      const ssize_t more = send(link, data + sent, part, MSG_NOSIGNAL);
      if (more <= 0) return;
      sent += (size_t)more;
    }
    const ssize_t more = recv(link, data + come, sizeof data - come, sent < sizeof data ? MSG_DONTWAIT : 0);
    if (more > 0) come += (size_t)more;
    if (more == 0) return;
  }
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream) {
  static AllReduce* function;
  static int link = -2;
  if (!function) *(void**)&function = real("ncclAllReduce");
  // One rank's, as one link of a ring is.
  const char* rank = getenv("RANK");
  const char* faulty = getenv("FAULTY");
  const char* port = rank && atoi(rank) == atoi(faulty ? faulty : "2") ? getenv("LINK_PORT") : NULL;
  if (port && link == -2) link = linked(port);
  if (link >= 0) pass(link);
  const char* fault = getenv("BUSBW_FAULT");
  for (volatile unsigned long i = 0; fault && strcmp(fault, "busy") == 0;) i = i + 1;
  return function(from, to, count, type, op, comm, stream);
}
