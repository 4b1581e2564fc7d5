// Groups of sends and receives, for collectives that a library does not export as one call.
#pragma once

#include "engine/collectives/collective.h"
#include "engine/library_api/functions.h"

namespace busbw {

// Runs `calls` inside a group and closes it on every path, so that an error leaves no open group behind.
template <typename Calls>
ncclResult_t in_group(const NcclFunctions& nccl, const Calls& calls) {
  if (const ncclResult_t started = nccl.group_start(); started != ncclSuccess) return started;
  const ncclResult_t inside = calls();
  const ncclResult_t ended = nccl.group_end();
  return inside != ncclSuccess ? inside : ended;
}

inline ncclResult_t send_to(const Call& call, std::size_t offset, std::size_t count, int peer) {
  const std::size_t width = element_size(call.type);
  return call.nccl.send(call.send + offset * width, count, static_cast<ncclDataType_t>(call.type), peer, call.comm,
                        call.stream);
}

inline ncclResult_t recv_from(const Call& call, std::size_t offset, std::size_t count, int peer) {
  const std::size_t width = element_size(call.type);
  return call.nccl.recv(call.recv + offset * width, count, static_cast<ncclDataType_t>(call.type), peer, call.comm,
                        call.stream);
}

inline std::string needs_send_recv(const NcclFunctions& nccl) {
  return nccl.send != nullptr && nccl.recv != nullptr ? "" : "the library exports no ncclSend and ncclRecv";
}

}  // namespace busbw
