// The part of the NCCL 2.x C ABI that busbw calls (engine) and implements (library). Neither half needs NCCL's own
// header.
//
// Facts of the ABI only: enumerators, struct layouts and signatures as NCCL 2.28 exports them. Functions are declared
// as types, because the engine finds every one of them at run time; a library defines those that it offers.
#pragma once

#include <climits>
#include <cstddef>

extern "C" {

struct ncclComm;
typedef ncclComm* ncclComm_t;
struct ncclWindow_vidmem;
typedef ncclWindow_vidmem* ncclWindow_t;
// A cudaStream_t or CUstream; libraries for the host ignore it.
typedef struct CUstream_st* ncclStream_t;

enum { NCCL_UNIQUE_ID_BYTES = 128 };
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,
};

enum ncclRedOp_t {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  // Values above are handles of ncclRedOpCreatePreMulSum.
  ncclMaxRedOp = 0x7fffffff,
};

// Of fixed width, so that a number which names no type can be looked at, and refused, without undefined behaviour.
enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12,
};

enum ncclScalarResidence_t { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };

enum { NCCL_CONFIG_UNDEF_INT = INT_MIN };
enum { NCCL_API_MAGIC = 0xcafebeef };
enum { NCCL_SPLIT_NOCOLOR = -1 };
enum { NCCL_WIN_DEFAULT = 0, NCCL_WIN_COLL_SYMMETRIC = 1 };
enum { NCCL_CTA_POLICY_DEFAULT = 0, NCCL_CTA_POLICY_EFFICIENCY = 1, NCCL_CTA_POLICY_ZERO = 2 };

// Grows by appending: a library copies the first `size` bytes and reads `version` to know which fields are there.
// Fields up to nvlinkCentricSched exist since 2.28, the rest since 2.30; fill `size` and `version` accordingly.
struct ncclConfig_t {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
};

typedef ncclResult_t ncclMemAlloc_t(void** ptr, size_t size);
typedef ncclResult_t ncclMemFree_t(void* ptr);
typedef ncclResult_t ncclGetVersion_t(int* version);
typedef ncclResult_t ncclGetUniqueId_t(ncclUniqueId* id);
typedef ncclResult_t ncclCommInitRankConfig_t(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                              ncclConfig_t* config);
typedef ncclResult_t ncclCommInitRank_t(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank);
typedef ncclResult_t ncclCommInitAll_t(ncclComm_t* comms, int ndev, const int* devices);
typedef ncclResult_t ncclCommSplit_t(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config);
typedef ncclResult_t ncclCommFinalize_t(ncclComm_t comm);
typedef ncclResult_t ncclCommDestroy_t(ncclComm_t comm);
typedef ncclResult_t ncclCommAbort_t(ncclComm_t comm);
typedef const char* ncclGetErrorString_t(ncclResult_t result);
typedef const char* ncclGetLastError_t(ncclComm_t comm);
typedef ncclResult_t ncclCommGetAsyncError_t(ncclComm_t comm, ncclResult_t* async_error);
typedef ncclResult_t ncclCommCount_t(ncclComm_t comm, int* count);
typedef ncclResult_t ncclCommCuDevice_t(ncclComm_t comm, int* device);
typedef ncclResult_t ncclCommUserRank_t(ncclComm_t comm, int* rank);
typedef ncclResult_t ncclCommRegister_t(ncclComm_t comm, void* buffer, size_t size, void** handle);
typedef ncclResult_t ncclCommDeregister_t(ncclComm_t comm, void* handle);
typedef ncclResult_t ncclCommWindowRegister_t(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window,
                                              int flags);
typedef ncclResult_t ncclCommWindowDeregister_t(ncclComm_t comm, ncclWindow_t window);
typedef ncclResult_t ncclRedOpCreatePreMulSum_t(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                                ncclScalarResidence_t residence, ncclComm_t comm);
typedef ncclResult_t ncclRedOpDestroy_t(ncclRedOp_t op, ncclComm_t comm);
typedef ncclResult_t ncclGroupStart_t();
typedef ncclResult_t ncclGroupEnd_t();

typedef ncclResult_t ncclReduce_t(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  int root, ncclComm_t comm, ncclStream_t stream);
typedef ncclResult_t ncclBcast_t(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                 ncclStream_t stream);
typedef ncclResult_t ncclBroadcast_t(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                     ncclComm_t comm, ncclStream_t stream);
typedef ncclResult_t ncclAllReduce_t(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                     ncclComm_t comm, ncclStream_t stream);
typedef ncclResult_t ncclReduceScatter_t(const void* send, void* recv, size_t recvcount, ncclDataType_t type,
                                         ncclRedOp_t op, ncclComm_t comm, ncclStream_t stream);
typedef ncclResult_t ncclAllGather_t(const void* send, void* recv, size_t sendcount, ncclDataType_t type,
                                     ncclComm_t comm, ncclStream_t stream);
typedef ncclResult_t ncclSend_t(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                ncclStream_t stream);
typedef ncclResult_t ncclRecv_t(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                ncclStream_t stream);
// Since 2.28; older libraries reach the same by grouped ncclSend and ncclRecv.
typedef ncclResult_t ncclAlltoAll_t(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                    ncclStream_t stream);
typedef ncclResult_t ncclGather_t(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, ncclStream_t stream);
typedef ncclResult_t ncclScatter_t(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                   ncclComm_t comm, ncclStream_t stream);

// busbw's own libraries say their real name and version here; NCCL's functions speak of the API level they implement.
typedef const char* busbwLibraryName_t();

// Optional: how the library would do a call of this kind on this communicator, such as "two_shot/ll@16x128" or "nccl:
// why", as text of at most `size` bytes with the closing zero. Buffers and `count` are what the collective's function
// takes; buffers matter only for whether they lie in a registered window, and may be null. `op` is ncclSum where
// nothing is reduced, and ncclNumOps stands for every op that the user made. Anything but 0 as the result means that
// there is nothing to say.
enum {
  busbwAllReduce = 0,
  busbwAllGather = 1,
  busbwReduceScatter = 2,
  busbwAllToAll = 3,
  busbwBroadcast = 4,
};
typedef int busbwExplainCall_t(ncclComm_t comm, int collective, const void* send, const void* recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, char* text, size_t size);
}
