// NCCL's interface for tuner plugins, versions 2 to 7: facts of the ABI only, as NCCL 2.21 to its newest sources have
// it.
//
// NCCL looks for ncclTunerPlugin_v7 down to _v2 and takes the newest that both know: v2 from 2.21, v3 from 2.22, v4
// from 2.24, v5 from 2.28, v6 from 2.30, v7 in its sources of 2026. 2.19 and 2.20 ask for v1 alone, which does not say
// which communicator calls: it is not offered.
#pragma once

#include <cstddef>
#include <cstdint>

#include "busbw/nccl_abi.h"

namespace busbw::tuner {

// Collectives, of any width that C gives an enumeration: int.
enum Function : int {
  func_broadcast = 0,
  func_reduce = 1,
  func_all_gather = 2,
  func_reduce_scatter = 3,
  func_all_reduce = 4,
};
inline constexpr int functions = 5;

// Rows of the cost table. NCCL 2.21 has the first six.
enum AlgorithmIndex : int {
  algo_undefined = -1,
  algo_tree = 0,
  algo_ring = 1,
  algo_collnet_direct = 2,
  algo_collnet_chain = 3,
  algo_nvls = 4,
  algo_nvls_tree = 5,
  algo_pat = 6,
};
inline constexpr int algorithms = 7;

// Columns of the cost table.
enum ProtocolIndex : int { proto_undefined = -1, proto_ll = 0, proto_ll128 = 1, proto_simple = 2 };
inline constexpr int protocols = 3;

// What NCCL writes where an algorithm and protocol cannot do the call.
inline constexpr float cost_ignore = -1.0F;

enum LogLevel : int { log_warn = 2, log_info = 3 };
inline constexpr unsigned long log_init = 0x1, log_tuning = 0x40;

// printf's way, with the file and line of the speaker.
using Logger = void (*)(LogLevel level, unsigned long flags, const char* file, int line, const char* format, ...);

struct DomainInfo;  // of NVLink domains, since v5; not read
struct Constants;   // of NCCL's own model, since v5, longer in v7; not read

struct TunerV2 {
  const char* name;
  ncclResult_t (*init)(std::size_t ranks, std::size_t nodes, Logger logger, void** context);
  ncclResult_t (*get_coll_info)(void* context, Function function, std::size_t bytes, int collnet_support,
                                int nvls_support, int pipelined, int* algorithm, int* protocol, int* channels);
  ncclResult_t (*destroy)(void* context);
};

// From here on NCCL hands over its estimates, algorithms x protocols floats in one piece, and takes the least.
struct TunerV3 {
  const char* name;
  ncclResult_t (*init)(std::size_t ranks, std::size_t nodes, Logger logger, void** context);
  ncclResult_t (*get_coll_info)(void* context, Function function, std::size_t bytes, int pipelined, float** costs,
                                int rows, int columns, int* channels);
  ncclResult_t (*destroy)(void* context);
};

struct TunerV4 {
  const char* name;
  ncclResult_t (*init)(std::size_t ranks, std::size_t nodes, Logger logger, void** context);
  ncclResult_t (*get_coll_info)(void* context, Function function, std::size_t bytes, int pipelined, float** costs,
                                int rows, int columns, int registered, int* channels);
  ncclResult_t (*destroy)(void* context);
};

struct TunerV5 {
  const char* name;
  ncclResult_t (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes, Logger logger,
                       DomainInfo* domains, Constants* constants);
  ncclResult_t (*get_coll_info)(void* context, Function function, std::size_t bytes, int pipelined, float** costs,
                                int rows, int columns, int registered, int* channels);
  ncclResult_t (*finalize)(void* context);
};

struct TunerV6 {
  const char* name;
  ncclResult_t (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes, Logger logger,
                       DomainInfo* domains, Constants* constants);
  ncclResult_t (*get_coll_info)(void* context, Function function, std::size_t bytes, int pipelined, float** costs,
                                int rows, int columns, int registered, int* channels);
  ncclResult_t (*finalize)(void* context);
  // NCCL clamps the result to what its buffers hold.
  ncclResult_t (*get_chunk_size)(void* context, Function function, std::size_t bytes, int algorithm, int protocol,
                                 int channels, std::size_t* chunk_bytes);
};

// As v6, with longer constants.
using TunerV7 = TunerV6;

}  // namespace busbw::tuner
