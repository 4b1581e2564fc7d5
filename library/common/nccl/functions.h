// Which functions of the NCCL API this library looks at and which it only passes on.
#pragma once

#include <cstdint>

#include "busbw/nccl_abi.h"

extern "C" {
// Not part of busbw/nccl_abi.h, because nothing but this library calls them.
typedef ncclResult_t ncclCommInitRankScalable_t(ncclComm_t* comm, int nranks, int rank, int ids_count,
                                                ncclUniqueId* ids, ncclConfig_t* config);
typedef ncclResult_t ncclCommShrink_t(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* newcomm,
                                      ncclConfig_t* config, int flags);
typedef ncclResult_t ncclCommGrow_t(ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* newcomm,
                                    ncclConfig_t* config);
typedef ncclResult_t ncclCommRevoke_t(ncclComm_t comm, int flags);
enum { NCCL_SHRINK_ABORT = 1 };
struct ncclSimInfo_t;
typedef ncclResult_t ncclGroupSimulateEnd_t(ncclSimInfo_t* info);
// Handed on unread: how one call shall be done.
typedef struct ncclCollConfig ncclCollConfig_t;
typedef ncclResult_t ncclAllReduceConfig_t(const void* send, void* recv, size_t count, ncclDataType_t type,
                                           ncclRedOp_t op, ncclComm_t comm, ncclStream_t stream,
                                           const ncclCollConfig_t* config);
typedef ncclResult_t ncclAllGatherConfig_t(const void* send, void* recv, size_t count, ncclDataType_t type,
                                           ncclComm_t comm, ncclStream_t stream, const ncclCollConfig_t* config);
typedef ncclResult_t ncclReduceScatterConfig_t(const void* send, void* recv, size_t count, ncclDataType_t type,
                                               ncclRedOp_t op, ncclComm_t comm, ncclStream_t stream,
                                               const ncclCollConfig_t* config);
typedef ncclResult_t ncclAlltoAllConfig_t(const void* send, void* recv, size_t count, ncclDataType_t type,
                                          ncclComm_t comm, ncclStream_t stream, const ncclCollConfig_t* config);
typedef ncclResult_t ncclBroadcastConfig_t(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                           ncclComm_t comm, ncclStream_t stream, const ncclCollConfig_t* config);
typedef ncclResult_t ncclReduceConfig_t(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                        int root, ncclComm_t comm, ncclStream_t stream, const ncclCollConfig_t* config);
typedef ncclResult_t ncclGatherConfig_t(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                        ncclComm_t comm, ncclStream_t stream, const ncclCollConfig_t* config);
typedef ncclResult_t ncclScatterConfig_t(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                         ncclComm_t comm, ncclStream_t stream, const ncclCollConfig_t* config);
typedef ncclResult_t ncclPutSignal_t(const void* local, size_t count, ncclDataType_t type, int peer,
                                     ncclWindow_t window, size_t offset, int signal, int context, unsigned flags,
                                     ncclComm_t comm, ncclStream_t stream);
typedef ncclResult_t ncclSignal_t(int peer, int signal, int context, unsigned flags, ncclComm_t comm,
                                  ncclStream_t stream);
typedef ncclResult_t ncclWaitSignal_t(int count, void* descriptions, ncclComm_t comm, ncclStream_t stream);
// Of AMD's RCCL, which has the names of NCCL besides.
typedef ncclResult_t ncclAllReduceWithBias_t(const void* send, void* recv, size_t count, ncclDataType_t type,
                                             ncclRedOp_t op, ncclComm_t comm, ncclStream_t stream, const void* bias);
typedef ncclResult_t ncclAllToAll_t(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                    ncclStream_t stream);
typedef ncclResult_t ncclAllToAllv_t(const void* send, const size_t* send_counts, const size_t* send_at, void* recv,
                                     const size_t* recv_counts, const size_t* recv_at, ncclDataType_t type,
                                     ncclComm_t comm, ncclStream_t stream);
typedef ncclResult_t mscclRunAlgo_t(const void* send, const size_t* send_counts, const size_t* send_at, void* recv,
                                    const size_t* recv_counts, const size_t* recv_at, size_t count, ncclDataType_t type,
                                    int root, int peer, ncclRedOp_t op, uint64_t algorithm, ncclComm_t comm,
                                    ncclStream_t stream);
}

// Functions with code of ours in api.cc.
#define BUSBW_REAL_FUNCTIONS(X)                     \
  X(get_version, ncclGetVersion)                    \
  X(init_rank, ncclCommInitRank)                    \
  X(init_rank_config, ncclCommInitRankConfig)       \
  X(init_rank_scalable, ncclCommInitRankScalable)   \
  X(init_all, ncclCommInitAll)                      \
  X(split, ncclCommSplit)                           \
  X(shrink, ncclCommShrink)                         \
  X(grow, ncclCommGrow)                             \
  X(revoke, ncclCommRevoke)                         \
  X(finalize, ncclCommFinalize)                     \
  X(destroy, ncclCommDestroy)                       \
  X(abort, ncclCommAbort)                           \
  X(get_async_error, ncclCommGetAsyncError)         \
  X(get_error_string, ncclGetErrorString)           \
  X(get_last_error, ncclGetLastError)               \
  X(count, ncclCommCount)                           \
  X(user_rank, ncclCommUserRank)                    \
  X(cu_device, ncclCommCuDevice)                    \
  X(window_register, ncclCommWindowRegister)        \
  X(window_deregister, ncclCommWindowDeregister)    \
  X(group_start, ncclGroupStart)                    \
  X(group_end, ncclGroupEnd)                        \
  X(group_simulate_end, ncclGroupSimulateEnd)       \
  X(all_reduce, ncclAllReduce)                      \
  X(all_gather, ncclAllGather)                      \
  X(reduce_scatter, ncclReduceScatter)              \
  X(broadcast, ncclBroadcast)                       \
  X(bcast, ncclBcast)                               \
  X(all_to_all, ncclAlltoAll)                       \
  X(reduce, ncclReduce)                             \
  X(gather, ncclGather)                             \
  X(scatter, ncclScatter)                           \
  X(send, ncclSend)                                 \
  X(recv, ncclRecv)                                 \
  X(all_reduce_config, ncclAllReduceConfig)         \
  X(all_gather_config, ncclAllGatherConfig)         \
  X(reduce_scatter_config, ncclReduceScatterConfig) \
  X(all_to_all_config, ncclAlltoAllConfig)          \
  X(broadcast_config, ncclBroadcastConfig)          \
  X(reduce_config, ncclReduceConfig)                \
  X(gather_config, ncclGatherConfig)                \
  X(scatter_config, ncclScatterConfig)              \
  X(put_signal, ncclPutSignal)                      \
  X(signal, ncclSignal)                             \
  X(wait_signal, ncclWaitSignal)                    \
  X(all_reduce_with_bias, ncclAllReduceWithBias)    \
  X(all_to_all_of_rccl, ncclAllToAll)               \
  X(all_to_all_v, ncclAllToAllv)                    \
  X(run_algorithm, mscclRunAlgo)

// The rest of the API up to NCCL 2.32, passed on unseen by forward.cc. A library that is opened instead of preloaded
// (busbw's engine, programs with a setting for NCCL's file) has to have them all.
#define BUSBW_FORWARDED_FUNCTIONS(X)  \
  X(ncclGetVersion)                   \
  X(ncclGetUniqueId)                  \
  X(ncclMemAlloc)                     \
  X(ncclMemFree)                      \
  X(ncclCommCount)                    \
  X(ncclCommCuDevice)                 \
  X(ncclCommUserRank)                 \
  X(ncclCommRegister)                 \
  X(ncclCommDeregister)               \
  X(ncclCommGetUniqueId)              \
  X(ncclCommMemStats)                 \
  X(ncclCommQueryProperties)          \
  X(ncclCommSuspend)                  \
  X(ncclCommResume)                   \
  X(ncclRedOpCreatePreMulSum)         \
  X(ncclRedOpDestroy)                 \
  X(ncclWinGetUserPtr)                \
  X(ncclDevCommCreate)                \
  X(ncclDevCommDestroy)               \
  X(ncclGetLsaDevicePointer)          \
  X(ncclGetLsaMultimemDevicePointer)  \
  X(ncclGetMultimemDevicePointer)     \
  X(ncclGetPeerDevicePointer)         \
  X(ncclGinBarrierCreateRequirement)  \
  X(ncclGinInboxA2ACreateRequirement) \
  X(ncclGinOutboxCreateRequirement)   \
  X(ncclLLA2ACalcSlots)               \
  X(ncclLLA2ACreateRequirement)       \
  X(ncclLsaBarrierCreateRequirement)  \
  X(ncclTeamLsa)                      \
  X(ncclTeamRail)                     \
  X(ncclTeamWorld)                    \
  X(ncclTeamRankToLsa)                \
  X(ncclTeamRankToWorld)              \
  X(ncclParamBind)                    \
  X(ncclParamDumpAll)                 \
  X(ncclParamGet)                     \
  X(ncclParamGetAllParameterKeys)     \
  X(ncclParamGetParameter)            \
  X(ncclParamGetStr)                  \
  X(ncclParamGetI8)                   \
  X(ncclParamGetI16)                  \
  X(ncclParamGetI32)                  \
  X(ncclParamGetI64)                  \
  X(ncclParamGetU8)                   \
  X(ncclParamGetU16)                  \
  X(ncclParamGetU32)                  \
  X(ncclParamGetU64)                  \
  X(ncclResetDebugInit)               \
  X(ncclResetDebugInitInternal)       \
  X(ncclSetEncryption)                \
  X(ncclGetCftDeviceLeInfo)           \
  X(ncclGetMultimemDeviceLeInfo)      \
  X(ncclGetPeerDeviceLeInfo)          \
  X(ncclTeamCft)                      \
  X(ncclTeamCftMultimem)              \
  X(ncclCftBarrierCreateRequirement)
