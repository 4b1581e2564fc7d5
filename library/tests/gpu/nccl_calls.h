// Calls any function of the NCCL API with arguments that tell their own position, for tests of what arrives behind our
// library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "library/common/nccl/functions.h"

// Functions whose every argument is checked by its position. clang-format finds no rest in these lists.
// clang-format off
#define PLAIN_FUNCTIONS(X) \
  X(ncclCommRevoke) \
  X(ncclCommFinalize) \
  X(ncclCommDestroy) \
  X(ncclCommAbort) \
  X(ncclGroupStart) \
  X(ncclGroupEnd) \
  X(ncclGroupSimulateEnd) \
  X(ncclAllReduce) \
  X(ncclAllGather) \
  X(ncclReduceScatter) \
  X(ncclBroadcast) \
  X(ncclBcast) \
  X(ncclAlltoAll) \
  X(ncclReduce) \
  X(ncclGather) \
  X(ncclScatter) \
  X(ncclSend) \
  X(ncclRecv) \
  X(ncclAllReduceConfig) \
  X(ncclAllGatherConfig) \
  X(ncclReduceScatterConfig) \
  X(ncclBroadcastConfig) \
  X(ncclAlltoAllConfig) \
  X(ncclReduceConfig) \
  X(ncclGatherConfig) \
  X(ncclScatterConfig) \
  X(ncclPutSignal) \
  X(ncclSignal) \
  X(ncclWaitSignal)

// Those with a place for a new communicator, or for a result, among their arguments.
#define COMMUNICATOR_FUNCTIONS(X) \
  X(ncclCommInitRank) \
  X(ncclCommInitRankConfig) \
  X(ncclCommInitRankScalable) \
  X(ncclCommInitAll) \
  X(ncclCommSplit) \
  X(ncclCommShrink) \
  X(ncclCommGetAsyncError)
// clang-format on

namespace busbw::gpu::test {

// The argument at `position`, from 1 on.
template <class T>
T argument(int position) {
  if constexpr (std::is_same_v<T, ncclUniqueId>) {
    ncclUniqueId id;
    std::memset(id.internal, position, sizeof id.internal);
    return id;
  } else if constexpr (std::is_same_v<T, ncclComm_t*>) {
    // Our library reads what NCCL has written there.
    static ncclComm_t made[8];
    return made;
  } else if constexpr (std::is_same_v<T, ncclConfig_t*>) {
    static ncclConfig_t config{};
    return &config;
  } else if constexpr (std::is_same_v<T, ncclResult_t*>) {
    static ncclResult_t result = ncclSuccess;
    return &result;
  } else if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(static_cast<std::intptr_t>(position));
  } else {
    return static_cast<T>(position);
  }
}

template <class Result, class... Arguments, std::size_t... positions>
Result call_at(Result (*function)(Arguments...), std::index_sequence<positions...>) {
  return function(argument<Arguments>(int(positions) + 1)...);
}

template <class Result, class... Arguments>
Result call(Result (*function)(Arguments...)) {
  return call_at(function, std::index_sequence_for<Arguments...>());
}

template <class... Arguments>
constexpr int arity(ncclResult_t (*)(Arguments...)) {
  return sizeof...(Arguments);
}

// What a forwarded function is taken for here: more arguments than registers hold, some of them floating-point.
using Generic = double(long, long, long, long, long, long, long, double, long, long, double);
inline double generic_answer(const char* name) {
  double answer = 0.5;
  for (; *name != '\0'; ++name) answer = 3 * answer + *name;
  return answer;
}

}  // namespace busbw::gpu::test
