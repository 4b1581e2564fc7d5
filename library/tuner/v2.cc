// Version 2: the plugin names algorithm and protocol itself, and is told what NVLink SHARP and the network can do.
#include "library/tuner/tuner.h"

namespace {

using namespace busbw::tuner;

// Rows that NCCL 2.21 has: it takes what a plugin says as it is.
constexpr int known_rows = algo_nvls_tree + 1;

ncclResult_t init(std::size_t ranks, std::size_t nodes, Logger logger, void** context) {
  return begin(context, ranks, nodes, logger);
}

// The newest interface marks its choice in a table of estimates: this one holds only what is possible at all.
ncclResult_t get_coll_info(void* context, Function function, std::size_t bytes, int collnet_support, int nvls_support,
                           int /*pipelined*/, int* algorithm, int* protocol, int* channels) {
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

}  // namespace

extern "C" __attribute__((visibility("default")))
const TunerV2 ncclTunerPlugin_v2 = {plugin_name, init, get_coll_info, end};
