// What the drawn jobs call of NCCL's API, declared in C: busbw/nccl_abi.h is C++, and no nccl.h need be installed here.
#pragma once
#include <stddef.h>

#include "meeting.h"

typedef void* Comm;
int ncclCommInitRank(Comm* comm, int ranks, UniqueId id, int rank);
int ncclCommSplit(Comm comm, int color, int key, Comm* made, void* config);
int ncclCommDestroy(Comm comm);
int ncclCommAbort(Comm comm);
int ncclCommUserRank(Comm comm, int* rank);
int ncclCommCount(Comm comm, int* ranks);
int ncclAllReduce(const void* send, void* receive, size_t count, int type, int op, Comm comm, void* stream);
int ncclReduce(const void* send, void* receive, size_t count, int type, int op, int root, Comm comm, void* stream);
int ncclBroadcast(const void* send, void* receive, size_t count, int type, int root, Comm comm, void* stream);
int ncclAllGather(const void* send, void* receive, size_t count, int type, Comm comm, void* stream);
int ncclReduceScatter(const void* send, void* receive, size_t count, int type, int op, Comm comm, void* stream);
int ncclSend(const void* send, size_t count, int type, int peer, Comm comm, void* stream);
int ncclRecv(void* receive, size_t count, int type, int peer, Comm comm, void* stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);

// Of ncclDataType_t and ncclRedOp_t.
enum { float32 = 7, int32 = 2, sum = 0, max = 2 };
