// What the program wants of a new communicator, as NCCL reads it: ncclConfig_t, overruled by NCCL's own variables.
#pragma once

#include <string>

#include "busbw/nccl_abi.h"

namespace busbw::gpu {

struct Wishes {
  bool blocking = true;
  // Blocks of a kernel: maxCTAs, NCCL_MAX_CTAS; minCTAs, NCCL_MIN_CTAS.
  int most_blocks = 0x7fffffff;
  int least_blocks = 1;
  // CTAPolicy, NCCL_CTA_POLICY: bits of NCCL_CTA_POLICY_EFFICIENCY and NCCL_CTA_POLICY_ZERO.
  int policy = NCCL_CTA_POLICY_DEFAULT;
  // graphUsageMode, NCCL_GRAPH_MIXING_SUPPORT: graphs and eager calls may run side by side, and are ordered.
  bool mixes_graphs = true;

  // Blocks that a communicator may ask for: with a policy that spares multiprocessors, no more than NCCL's channels.
  int ceiling() const;
};

// `config` may be null, and shorter than ours; what it leaves open is as in `otherwise`.
Wishes wishes_of(const ncclConfig_t* config, const Wishes& otherwise = {});

// A variable of NCCL's that forbids what our kernels do, or wants NCCL to see each call: the reason why NCCL does
// everything, or "".
std::string what_bars_ours();

}  // namespace busbw::gpu
