// Which functions of the NCCL API this library looks at and which it only passes on.
#pragma once

#include "busbw/nccl_abi.h"

extern "C" {
// Not part of busbw/nccl_abi.h, because nothing but this library calls them.
typedef ncclResult_t ncclCommInitRankScalable_t(ncclComm_t* comm, int nranks, int rank, int ids_count,
                                                ncclUniqueId* ids, ncclConfig_t* config);
typedef ncclResult_t ncclCommShrink_t(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* newcomm,
                                      ncclConfig_t* config, int flags);
typedef ncclResult_t ncclCommRevoke_t(ncclComm_t comm, int flags);
enum { NCCL_SHRINK_ABORT = 1 };
}

// Functions with code of ours in api.cc.
#define BUSBW_REAL_FUNCTIONS(X)                   \
  X(get_version, ncclGetVersion)                  \
  X(init_rank, ncclCommInitRank)                  \
  X(init_rank_config, ncclCommInitRankConfig)     \
  X(init_rank_scalable, ncclCommInitRankScalable) \
  X(init_all, ncclCommInitAll)                    \
  X(split, ncclCommSplit)                         \
  X(shrink, ncclCommShrink)                       \
  X(revoke, ncclCommRevoke)                       \
  X(finalize, ncclCommFinalize)                   \
  X(destroy, ncclCommDestroy)                     \
  X(abort, ncclCommAbort)                         \
  X(get_async_error, ncclCommGetAsyncError)       \
  X(get_error_string, ncclGetErrorString)         \
  X(get_last_error, ncclGetLastError)             \
  X(count, ncclCommCount)                         \
  X(user_rank, ncclCommUserRank)                  \
  X(cu_device, ncclCommCuDevice)                  \
  X(window_register, ncclCommWindowRegister)      \
  X(window_deregister, ncclCommWindowDeregister)  \
  X(group_start, ncclGroupStart)                  \
  X(group_end, ncclGroupEnd)                      \
  X(all_reduce, ncclAllReduce)                    \
  X(all_gather, ncclAllGather)                    \
  X(reduce_scatter, ncclReduceScatter)            \
  X(broadcast, ncclBroadcast)                     \
  X(bcast, ncclBcast)                             \
  X(all_to_all, ncclAlltoAll)                     \
  X(reduce, ncclReduce)                           \
  X(gather, ncclGather)                           \
  X(scatter, ncclScatter)                         \
  X(send, ncclSend)                               \
  X(recv, ncclRecv)

// The rest of the API up to NCCL 2.30, passed on unseen by forward.cc. A library that is opened instead of preloaded
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
  X(ncclCommGrow)                     \
  X(ncclCommMemStats)                 \
  X(ncclCommQueryProperties)          \
  X(ncclCommSuspend)                  \
  X(ncclCommResume)                   \
  X(ncclGroupSimulateEnd)             \
  X(ncclRedOpCreatePreMulSum)         \
  X(ncclRedOpDestroy)                 \
  X(ncclPutSignal)                    \
  X(ncclSignal)                       \
  X(ncclWaitSignal)                   \
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
  X(ncclParamGetU64)
