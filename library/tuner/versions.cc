// The interface of each version of NCCL, as answers of the newest.
#include "library/tuner/tuner.h"

namespace busbw::tuner {
namespace {

// Rows that NCCL 2.21 has: it takes what a plugin says as it is.
constexpr int known_rows = algo_nvls_tree + 1;

ncclResult_t init_v2(std::size_t ranks, std::size_t nodes, Logger logger, void** context) {
  return begin(context, ranks, nodes, logger);
}

// The communicator's identifier and NCCL's own constants, in version 7 longer ones: none of them is needed.
ncclResult_t init_v5(void** context, std::uint64_t /*communicator*/, std::size_t ranks, std::size_t nodes,
                     Logger logger, DomainInfo* /*domains*/, Constants* /*constants*/) {
  return begin(context, ranks, nodes, logger);
}

// Here the plugin names algorithm and protocol itself, and is told what NVLink SHARP and the network can do. The newest
// interface marks its choice in a table of estimates: this one holds only what is possible at all.
ncclResult_t get_coll_info_v2(void* context, Function function, std::size_t bytes, int collnet_support,
                              int nvls_support, int /*pipelined*/, int* algorithm, int* protocol, int* channels) {
  float costs[known_rows][protocols];
  for (int row = 0; row < known_rows; ++row) {
    const bool collnet = row == algo_collnet_direct || row == algo_collnet_chain;
    const bool nvls = row == algo_nvls || row == algo_nvls_tree;
    for (int column = 0; column < protocols; ++column) {
      const bool possible =
          (!collnet || collnet_support) && (!nvls || nvls_support) && (column == proto_simple || (!collnet && !nvls));
      costs[row][column] = possible ? 1.0F : cost_ignore;
    }
  }
  const ncclResult_t result = choose(context, function, bytes, &costs[0][0], known_rows, protocols, channels);
  for (int row = 0; row < known_rows; ++row) {
    for (int column = 0; column < protocols; ++column) {
      if (costs[row][column] != 0.0F || !algorithm || !protocol) continue;
      *algorithm = row;
      *protocol = column;
    }
  }
  return result;
}

// The first with NCCL's estimates, whose table is one piece behind this type.
ncclResult_t get_coll_info_v3(void* context, Function function, std::size_t bytes, int /*pipelined*/, float** costs,
                              int rows, int columns, int* channels) {
  return choose(context, function, bytes, reinterpret_cast<float*>(costs), rows, columns, channels);
}

// Whether buffers are registered comes with each call; rules do not tell them apart.
ncclResult_t get_coll_info_v4(void* context, Function function, std::size_t bytes, int pipelined, float** costs,
                              int rows, int columns, int /*registered*/, int* channels) {
  return get_coll_info_v3(context, function, bytes, pipelined, costs, rows, columns, channels);
}

// How large the pieces of a call are.
ncclResult_t get_chunk_size_v6(void* context, Function function, std::size_t bytes, int algorithm, int protocol,
                               int /*channels*/, std::size_t* chunk_bytes) {
  return choose_chunk(context, function, bytes, algorithm, protocol, chunk_bytes);
}

}  // namespace

extern "C" __attribute__((visibility("default")))
const TunerV2 ncclTunerPlugin_v2 = {plugin_name, init_v2, get_coll_info_v2, end};
extern "C" __attribute__((visibility("default")))
const TunerV3 ncclTunerPlugin_v3 = {plugin_name, init_v2, get_coll_info_v3, end};
extern "C" __attribute__((visibility("default")))
const TunerV4 ncclTunerPlugin_v4 = {plugin_name, init_v2, get_coll_info_v4, end};
extern "C" __attribute__((visibility("default")))
const TunerV5 ncclTunerPlugin_v5 = {plugin_name, init_v5, get_coll_info_v4, end};
extern "C" __attribute__((visibility("default")))
const TunerV6 ncclTunerPlugin_v6 = {plugin_name, init_v5, get_coll_info_v4, end, get_chunk_size_v6};
extern "C" __attribute__((visibility("default")))
const TunerV7 ncclTunerPlugin_v7 = {plugin_name, init_v5, get_coll_info_v4, end, get_chunk_size_v6};

}  // namespace busbw::tuner
