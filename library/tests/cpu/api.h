// The exported functions of the library under test, declared with the ABI's function types.
#pragma once

#include "busbw/nccl_abi.h"

extern "C" {
busbwLibraryName_t busbwLibraryName;
ncclMemAlloc_t ncclMemAlloc;
ncclMemFree_t ncclMemFree;
ncclGetVersion_t ncclGetVersion;
ncclGetUniqueId_t ncclGetUniqueId;
ncclCommInitRankConfig_t ncclCommInitRankConfig;
ncclCommInitRank_t ncclCommInitRank;
ncclCommInitAll_t ncclCommInitAll;
ncclCommSplit_t ncclCommSplit;
ncclCommFinalize_t ncclCommFinalize;
ncclCommDestroy_t ncclCommDestroy;
ncclCommAbort_t ncclCommAbort;
ncclGetErrorString_t ncclGetErrorString;
ncclGetLastError_t ncclGetLastError;
ncclCommGetAsyncError_t ncclCommGetAsyncError;
ncclCommCount_t ncclCommCount;
ncclCommCuDevice_t ncclCommCuDevice;
ncclCommUserRank_t ncclCommUserRank;
ncclCommRegister_t ncclCommRegister;
ncclCommDeregister_t ncclCommDeregister;
ncclCommWindowRegister_t ncclCommWindowRegister;
ncclCommWindowDeregister_t ncclCommWindowDeregister;
ncclRedOpCreatePreMulSum_t ncclRedOpCreatePreMulSum;
ncclRedOpDestroy_t ncclRedOpDestroy;
ncclGroupStart_t ncclGroupStart;
ncclGroupEnd_t ncclGroupEnd;
ncclReduce_t ncclReduce;
ncclBcast_t ncclBcast;
ncclBroadcast_t ncclBroadcast;
ncclAllReduce_t ncclAllReduce;
ncclReduceScatter_t ncclReduceScatter;
ncclAllGather_t ncclAllGather;
ncclSend_t ncclSend;
ncclRecv_t ncclRecv;
ncclAlltoAll_t ncclAlltoAll;
ncclGather_t ncclGather;
ncclScatter_t ncclScatter;
}
