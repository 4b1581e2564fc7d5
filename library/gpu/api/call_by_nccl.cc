// From a collective back to the function of the NCCL API that makes it.
#include "library/gpu/api/call_by_nccl.h"

#include "library/common/nccl/real_nccl.h"

namespace busbw::gpu {

ncclResult_t call_by_nccl(ncclComm_t comm, const Call& call) {
  const RealNccl& real = real_nccl();
  switch (call.collective) {
    case Collective::all_reduce:
      return call_nccl(real.all_reduce, call.send, call.recv, call.count, call.type, call.op, comm, call.stream);
    case Collective::all_gather:
      return call_nccl(real.all_gather, call.send, call.recv, call.count, call.type, comm, call.stream);
    case Collective::reduce_scatter:
      return call_nccl(real.reduce_scatter, call.send, call.recv, call.count, call.type, call.op, comm, call.stream);
    case Collective::all_to_all:
      if (!real.all_to_all) return ncclInvalidUsage;
      return call_nccl(real.all_to_all, call.send, call.recv, call.count, call.type, comm, call.stream);
    case Collective::broadcast:
      return call_nccl(real.broadcast, call.send, call.recv, call.count, call.type, call.root, comm, call.stream);
  }
  return ncclInvalidUsage;
}

}  // namespace busbw::gpu
