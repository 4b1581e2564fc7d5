// What each function of the NCCL API does first: checks of its arguments, and failures turned into result codes.
#pragma once

#include <vector>

#include "busbw/nccl_abi.h"
#include "library/common/failure.h"
#include "library/cpu/group.h"
#include "library/cpu/handle.h"

namespace busbw::cpu {

inline ncclResult_t refuse(ncclComm_t comm, ncclResult_t code, const char* sentence) {
  const bool usable = comm && comm->magic == ncclComm::live;
  remember(usable ? comm : nullptr, code, sentence);
  note_group_failure(code);
  return code;
}

// Turns exceptions into result codes; what goes wrong here is the call's fault and does not spoil the communicator.
template <class Work>
ncclResult_t guarded(ncclComm_t comm, Work work) {
  try {
    return work();
  } catch (const Failure& failure) {
    return refuse(comm, failure.code(), failure.what());
  } catch (const std::exception& error) {
    return refuse(comm, ncclInternalError, error.what());
  }
}

template <class T>
T* checked_pointer(T* pointer, const char* what) {
  if (!pointer) throw Failure(ncclInvalidArgument, text("The pointer to the %s is NULL.", what));
  return pointer;
}

inline Communicator& core_of(ncclComm& comm) {
  if (!comm.core) {
    throw Failure(ncclInvalidUsage,
                  "The communicator is not initialised: its ncclGroupEnd has not run, or has failed.");
  }
  return *comm.core;
}

inline void check_type(ncclDataType_t type) {
  if (int(type) < 0 || int(type) >= ncclNumTypes) {
    throw Failure(ncclInvalidArgument, text("%d is no data type of the NCCL API.", int(type)));
  }
}

inline void check_peer(const char* what, int peer, int ranks) {
  if (peer < 0 || peer >= ranks) {
    throw Failure(ncclInvalidArgument, text("The %s is %d; ranks go from 0 to %d.", what, peer, ranks - 1));
  }
}

inline void check_count(std::size_t count, ncclDataType_t type, int factor) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element_size(type) * std::size_t(factor), &bytes)) [[unlikely]] {
    throw Failure(ncclInvalidArgument, text("A count of %zu elements is more than memory can hold.", count));
  }
}

inline void set_reduction(ncclComm& comm, Collective& call, ncclRedOp_t op) {
  if (int(op) >= ncclNumOps) {
    call.reduction = Reduction::premul_sum;
    call.scalar = comm.red_ops.scalar(op, call.type);
  } else if (int(op) >= 0) {
    call.reduction = Reduction(op);
  } else {
    throw Failure(ncclInvalidArgument, text("%d is no reduction operator of the NCCL API.", int(op)));
  }
}

[[gnu::always_inline]] inline ncclResult_t start(ncclComm_t handle, Collective call, ncclRedOp_t op = ncclSum) {
  return guarded(handle, [&] {
    ncclComm& comm = checked(handle);
    const int ranks = comm.core ? comm.core->ranks() : 1;
    if (!in_group()) core_of(comm);
    check_type(call.type);
    check_count(call.count, call.type, ranks);
    if (comm.core) {
      check_peer("root", call.root, ranks);
      if (call.count > 0 && contributes(call, comm.core->rank())) checked_pointer(call.send, "send buffer");
      if (call.count > 0 && receives(call, comm.core->rank())) checked_pointer(call.recv, "receive buffer");
    }
    if (reduces(call.kind)) set_reduction(comm, call, op);
    return submit(comm, call);
  });
}

inline ncclResult_t start(ncclComm_t handle, Direction direction, const void* buffer, std::size_t count,
                          ncclDataType_t type, int peer) {
  return guarded(handle, [&] {
    ncclComm& comm = checked(handle);
    check_type(type);
    check_count(count, type, 1);
    check_peer("peer", peer, core_of(comm).ranks());
    if (count > 0) checked_pointer(buffer, "buffer");
    return submit(comm, Transfer{.direction = direction,
                                 .peer = peer,
                                 .buffer = static_cast<unsigned char*>(const_cast<void*>(buffer)),
                                 .bytes = count * element_size(type)});
  });
}

inline void check_config(const ncclConfig_t* config) {
  if (config && config->magic != unsigned(NCCL_API_MAGIC)) {
    throw Failure(ncclInvalidArgument, "The ncclConfig_t was not initialised with NCCL_CONFIG_INITIALIZER.");
  }
}

}  // namespace busbw::cpu
