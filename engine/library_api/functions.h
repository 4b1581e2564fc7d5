// The functions of the NCCL API that the engine calls.
#pragma once

#include "busbw/nccl_abi.h"

namespace busbw {

// Null members are functions that the library does not export. All calls may come from any thread.
struct NcclFunctions {
  ncclGetVersion_t* get_version;
  ncclGetUniqueId_t* get_unique_id;
  ncclCommInitRank_t* comm_init_rank;
  ncclCommInitRankConfig_t* comm_init_rank_config;
  ncclCommDestroy_t* comm_destroy;
  ncclCommAbort_t* comm_abort;
  ncclCommGetAsyncError_t* comm_get_async_error;
  ncclCommCount_t* comm_count;
  ncclCommUserRank_t* comm_user_rank;
  ncclGetErrorString_t* get_error_string;
  ncclGetLastError_t* get_last_error;
  ncclGroupStart_t* group_start;
  ncclGroupEnd_t* group_end;
  ncclMemAlloc_t* mem_alloc;
  ncclMemFree_t* mem_free;
  ncclCommRegister_t* comm_register;
  ncclCommDeregister_t* comm_deregister;
  ncclCommWindowRegister_t* comm_window_register;
  ncclCommWindowDeregister_t* comm_window_deregister;
  ncclRedOpCreatePreMulSum_t* red_op_create_pre_mul_sum;
  ncclRedOpDestroy_t* red_op_destroy;
  ncclAllReduce_t* all_reduce;
  ncclAllGather_t* all_gather;
  ncclReduceScatter_t* reduce_scatter;
  ncclBroadcast_t* broadcast;
  ncclReduce_t* reduce;
  ncclSend_t* send;
  ncclRecv_t* recv;
  ncclAlltoAll_t* alltoall;
  ncclGather_t* gather;
  ncclScatter_t* scatter;
};

}  // namespace busbw
