// The tables for GPUs that we know.
#include "library/gpu/choose/built_in.h"

#include <algorithm>
#include <span>

namespace busbw::gpu {
namespace {

constexpr Use nccl{.nccl = true};
constexpr Use one_shot_ll{.algorithm = Algorithm::one_shot, .protocol = Protocol::ll};
constexpr Use two_shot_ll{.algorithm = Algorithm::two_shot, .protocol = Protocol::ll};
constexpr Use two_shot_sentinel{.algorithm = Algorithm::two_shot, .protocol = Protocol::sentinel};
constexpr Use two_shot_simple{.algorithm = Algorithm::two_shot, .protocol = Protocol::simple};
constexpr Use direct_ll{.algorithm = Algorithm::direct, .protocol = Protocol::ll};
constexpr Use direct_sentinel{.algorithm = Algorithm::direct, .protocol = Protocol::sentinel};
constexpr Use direct_simple{.algorithm = Algorithm::direct, .protocol = Protocol::simple};
constexpr Use staged_copy{.algorithm = Algorithm::staged, .protocol = Protocol::copy};
constexpr Use forward_simple{.algorithm = Algorithm::scatter_forward, .protocol = Protocol::simple};

// A line of a built-in table: `use` for up to `ranks` ranks and `to` bytes. A line for fewer ranks stands before those
// for more; the first whose kernel can do the call decides.
struct Line {
  Collective collective;
  int ranks;
  std::uint64_t to;
  Use use;
  Calls calls = Calls::any;
};

// H100 and H200 with NVLink: from busbw_kernel_sweep on two and four H200 (NVLink multicast off), each crossing where
// the times of two kernels meet, and from NCCL 2.28.9 beside them. Eight ranks are not measured: their lines are those
// of four, moved by what a model of the links says.
// - One-shot sends every byte to every peer: with two ranks that costs no more than two-shot.
// - LL carries four bytes of flags with four of data; Simple pays for its fence with more than 5 us at any size.
// - Sentinels end where the scratch does, at 17 MiB or a little more. Direct ones were measured on two GPUs only; up to
//   eight ranks take them from about as many bytes on.
// - Pushes through scratch end at 336 GB/s on four GPUs. NCCL's rings get 355 for all-reduce, its all-gather and
//   all-to-all 345 to 350. Copy engines, straight into windows, were measured on two GPUs: 380 for all-gather of 1 GiB.
// - Of buffers in windows NCCL reduces with other kernels than its rings: 256 MiB take 1394 to 1481 us on four GPUs
//   instead of 1174 to 1184.
constexpr Line hopper[] = {
    {Collective::all_reduce, 2, 256 * KiB, one_shot_ll},
    {Collective::all_reduce, 4, 144 * KiB, one_shot_ll},
    {Collective::all_reduce, 8, 32 * KiB, one_shot_ll},
    {Collective::all_reduce, 8, 32 * MiB, two_shot_sentinel},
    {Collective::all_reduce, 8, 1536 * KiB, two_shot_ll},
    {Collective::all_reduce, 2, no_limit, two_shot_simple},
    {Collective::all_reduce, 8, 64 * MiB, two_shot_simple},
    {Collective::all_reduce, 4, no_limit, two_shot_simple, Calls::windows},
    {Collective::all_reduce, 8, no_limit, nccl},
    {Collective::all_gather, 4, 256 * KiB, direct_ll},
    {Collective::all_gather, 8, 128 * KiB, direct_ll},
    {Collective::all_gather, 8, 32 * MiB, direct_sentinel},
    {Collective::all_gather, 8, 96 * MiB, direct_simple},
    {Collective::all_gather, 8, no_limit, direct_copy},
    {Collective::all_gather, 2, no_limit, direct_simple},
    {Collective::all_gather, 8, no_limit, nccl},
    {Collective::reduce_scatter, 4, 128 * KiB, direct_ll},
    {Collective::reduce_scatter, 8, 64 * KiB, direct_ll},
    {Collective::reduce_scatter, 8, 32 * MiB, direct_sentinel},
    {Collective::reduce_scatter, 4, 1536 * KiB, direct_ll},
    {Collective::reduce_scatter, 8, 512 * KiB, direct_ll},
    {Collective::reduce_scatter, 8, no_limit, direct_simple},
    {Collective::all_to_all, 4, 256 * KiB, direct_ll},
    {Collective::all_to_all, 8, 128 * KiB, direct_ll},
    {Collective::all_to_all, 8, 32 * MiB, direct_sentinel},
    {Collective::all_to_all, 8, 112 * MiB, direct_simple},
    {Collective::all_to_all, 8, no_limit, direct_copy},
    {Collective::all_to_all, 2, no_limit, direct_simple},
    {Collective::all_to_all, 8, 192 * MiB, direct_simple},
    {Collective::all_to_all, 8, no_limit, nccl},
    // The root's link carries the whole vector once per peer.
    {Collective::broadcast, 2, 384 * KiB, direct_ll},
    {Collective::broadcast, 2, 32 * MiB, direct_sentinel},
    {Collective::broadcast, 4, 384 * KiB, direct_ll},
    {Collective::broadcast, 8, 128 * KiB, direct_ll},
    {Collective::broadcast, 2, 80 * MiB, forward_simple},
    {Collective::broadcast, 2, no_limit, direct_copy},
    {Collective::broadcast, 2, no_limit, forward_simple},
    {Collective::broadcast, 8, 384 * MiB, forward_simple},
    {Collective::broadcast, 8, no_limit, nccl},
};

// The same GPUs where the program computes beside its collectives. What is short is ours as alone. What is long takes
// multiprocessors from the program for as long as it is on the links: a step of DDP on four GPUs takes 5 % longer with
// our kernels than with NCCL's, and as long as with NCCL's if all from 1 MiB on are NCCL's; a step of FSDP on two takes
// 2 % longer with our kernels beyond 32 MiB (docs/decisions/0033). DDP's buckets, 25 MiB and somewhat more, go by
// staged copies (0034, 0080), FSDP's gathers and scatters as well (0081), and the all-to-alls of experts on two GPUs
// (0103): they cost a step less than NCCL's, and more where nothing runs beside them.
constexpr Line hopper_beside[] = {
    {Collective::all_reduce, 2, 256 * KiB, one_shot_ll},
    {Collective::all_reduce, 4, 144 * KiB, one_shot_ll},
    {Collective::all_reduce, 8, 32 * KiB, one_shot_ll},
    {Collective::all_reduce, 8, 1 * MiB, two_shot_sentinel},
    {Collective::all_reduce, 8, 1 * MiB, two_shot_ll},
    {Collective::all_reduce, 4, 20 * MiB, nccl},
    {Collective::all_reduce, 4, 48 * MiB, staged_copy, Calls::beside_work},
    {Collective::all_reduce, 8, no_limit, nccl},
    {Collective::all_gather, 4, 256 * KiB, direct_ll},
    {Collective::all_gather, 8, 128 * KiB, direct_ll},
    {Collective::all_gather, 2, 32 * MiB, direct_sentinel},
    {Collective::all_gather, 2, 32 * MiB, direct_simple},
    {Collective::all_gather, 2, no_limit, direct_copy},
    {Collective::all_gather, 8, 1 * MiB, direct_sentinel},
    {Collective::all_gather, 4, 20 * MiB, nccl},
    {Collective::all_gather, 4, 64 * MiB, staged_copy, Calls::beside_work},
    {Collective::all_gather, 8, 64 * MiB, nccl},
    {Collective::all_gather, 8, no_limit, direct_copy},
    {Collective::all_gather, 4, 1024 * MiB, staged_copy, Calls::beside_work},
    {Collective::all_gather, 8, no_limit, nccl},
    {Collective::reduce_scatter, 4, 128 * KiB, direct_ll},
    {Collective::reduce_scatter, 8, 64 * KiB, direct_ll},
    {Collective::reduce_scatter, 2, 32 * MiB, direct_sentinel},
    {Collective::reduce_scatter, 2, 32 * MiB, direct_simple},
    {Collective::reduce_scatter, 2, 1024 * MiB, staged_copy, Calls::beside_work},
    {Collective::reduce_scatter, 2, no_limit, nccl},
    {Collective::reduce_scatter, 8, 1 * MiB, direct_sentinel},
    {Collective::reduce_scatter, 8, 512 * KiB, direct_ll},
    {Collective::reduce_scatter, 4, 20 * MiB, nccl},
    {Collective::reduce_scatter, 4, 1024 * MiB, staged_copy, Calls::beside_work},
    {Collective::reduce_scatter, 8, no_limit, nccl},
    {Collective::all_to_all, 4, 256 * KiB, direct_ll},
    {Collective::all_to_all, 8, 128 * KiB, direct_ll},
    {Collective::all_to_all, 8, 1 * MiB, direct_sentinel},
    {Collective::all_to_all, 4, 4 * MiB, nccl},
    {Collective::all_to_all, 2, 1024 * MiB, staged_copy, Calls::beside_work},
    {Collective::all_to_all, 8, 64 * MiB, nccl},
    {Collective::all_to_all, 8, no_limit, direct_copy},
    {Collective::all_to_all, 8, no_limit, nccl},
    {Collective::broadcast, 2, 384 * KiB, direct_ll},
    {Collective::broadcast, 2, 1 * MiB, direct_sentinel},
    {Collective::broadcast, 4, 384 * KiB, direct_ll},
    {Collective::broadcast, 8, 128 * KiB, direct_ll},
    {Collective::broadcast, 8, no_limit, nccl},
};

// Any other GPU: nothing is measured there, so only where one or two hops without a fence win on any NVLink.
constexpr Line unknown[] = {
    {Collective::all_reduce, 2, 128 * KiB, one_shot_ll},
    {Collective::all_reduce, 8, 32 * KiB, one_shot_ll},
    {Collective::all_reduce, 8, 1 * MiB, two_shot_sentinel},
    {Collective::all_reduce, 8, 128 * KiB, two_shot_ll},
    {Collective::all_reduce, 8, no_limit, nccl},
    {Collective::all_gather, 8, 128 * KiB, direct_ll},
    {Collective::all_gather, 8, no_limit, nccl},
    {Collective::reduce_scatter, 8, 128 * KiB, direct_ll},
    {Collective::reduce_scatter, 8, no_limit, nccl},
    {Collective::all_to_all, 8, 128 * KiB, direct_ll},
    {Collective::all_to_all, 8, no_limit, nccl},
    {Collective::broadcast, 8, 64 * KiB, direct_ll},
    {Collective::broadcast, 8, no_limit, nccl},
};

std::span<const Line> built_in(const std::string& gpu_name, Preference prefer) {
  for (const char* known : {"H100", "H200"}) {
    if (gpu_name.find(known) == std::string::npos) continue;
    return prefer == Preference::overlap ? std::span<const Line>(hopper_beside) : std::span<const Line>(hopper);
  }
  return unknown;
}

// As rules: "up to 4 ranks" is a rule for 2, one for 3 and one for 4.
void add_rules(const Line& line, std::vector<Rule>& rules) {
  for (int ranks = 2; ranks <= line.ranks; ++ranks) {
    const bool covered = std::any_of(rules.begin(), rules.end(), [&](const Rule& rule) {
      return rule.collective == line.collective && rule.ranks == ranks && rule.use == line.use &&
             rule.calls == line.calls && rule.to >= line.to;  // by a line for fewer ranks
    });
    if (covered) continue;
    rules.push_back(
        {.collective = line.collective, .ranks = ranks, .to = line.to, .calls = line.calls, .use = line.use});
  }
}

}  // namespace

std::vector<Rule> built_in_rules(const std::string& gpu_name, Preference prefer) {
  std::vector<Rule> rules;
  for (const Line& line : built_in(gpu_name, prefer)) add_rules(line, rules);
  return rules;
}

}  // namespace busbw::gpu
