// The kernels and their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace busbw::gpu {

enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast };
inline constexpr int collective_count = 5;

// one_shot: every rank gets every contribution and reduces all of it. two_shot: reduce-scatter, then all-gather.
// direct: from each rank to its destination. scatter_forward: the root sends each peer a share, which the peer
// forwards. staged: through the scratch, into which peers push and from which they fetch (run/staged.h).
enum class Algorithm : std::uint8_t { one_shot, two_shot, direct, scatter_forward, staged };

// copy: no kernel but for sums; copy engines, which write straight into the peers' registered windows (direct), or go
// through the scratch (staged).
enum class Protocol : std::uint8_t { ll, sentinel, simple, copy };

constexpr const char* name(Collective collective) {
  constexpr const char* names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"};
  return names[static_cast<int>(collective)];
}

constexpr const char* name(Algorithm algorithm) {
  constexpr const char* names[] = {"one_shot", "two_shot", "direct", "scatter_forward", "staged"};
  return names[static_cast<int>(algorithm)];
}

constexpr const char* name(Protocol protocol) {
  constexpr const char* names[] = {"ll", "sentinel", "simple", "copy"};
  return names[static_cast<int>(protocol)];
}

constexpr bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter;
}

// What there is: kernels, and behind them what copy engines do: for calls whose output is in a window (window.h), and
// for any. A
// kernel's name is busbw_<collective>_<algorithm>_<protocol>, _<type> if it reduces, and
// _2, _4 or _8, the most ranks that it is for; types are named as in nccl-tests (int8 uint8 int32 ... half float double
// bfloat16 f8e4m3 f8e5m2).
struct KernelKind {
  Collective collective;
  Algorithm algorithm;
  Protocol protocol;
};

inline constexpr KernelKind all_kinds[] = {
    {Collective::all_reduce, Algorithm::one_shot, Protocol::ll},
    {Collective::all_reduce, Algorithm::two_shot, Protocol::ll},
    {Collective::all_reduce, Algorithm::two_shot, Protocol::sentinel},  // half, bfloat16, float
    {Collective::all_reduce, Algorithm::two_shot, Protocol::simple},
    {Collective::reduce_scatter, Algorithm::direct, Protocol::ll},
    {Collective::reduce_scatter, Algorithm::direct, Protocol::sentinel},  // half, bfloat16, float
    {Collective::reduce_scatter, Algorithm::direct, Protocol::simple},
    {Collective::all_gather, Algorithm::direct, Protocol::ll},
    {Collective::all_gather, Algorithm::direct, Protocol::sentinel},
    {Collective::all_gather, Algorithm::direct, Protocol::simple},
    {Collective::all_to_all, Algorithm::direct, Protocol::ll},
    {Collective::all_to_all, Algorithm::direct, Protocol::sentinel},
    {Collective::all_to_all, Algorithm::direct, Protocol::simple},
    {Collective::broadcast, Algorithm::direct, Protocol::ll},
    {Collective::broadcast, Algorithm::direct, Protocol::sentinel},
    {Collective::broadcast, Algorithm::scatter_forward, Protocol::simple},
    {Collective::all_gather, Algorithm::direct, Protocol::copy},
    {Collective::all_to_all, Algorithm::direct, Protocol::copy},
    {Collective::broadcast, Algorithm::direct, Protocol::copy},
    {Collective::all_reduce, Algorithm::staged, Protocol::copy},
    {Collective::reduce_scatter, Algorithm::staged, Protocol::copy},
    {Collective::all_gather, Algorithm::staged, Protocol::copy},
    {Collective::all_to_all, Algorithm::staged, Protocol::copy},
};
inline constexpr std::size_t copy_kind_count = 7;
inline constexpr std::span<const KernelKind> kernel_kinds(all_kinds, std::size(all_kinds) - copy_kind_count);

// Kernels of the Simple protocol are pipelines, whose stages share a block's threads (kernels/stage.h); others have
// none.
constexpr int stages_of(const KernelKind& kind) {
  if (kind.protocol != Protocol::simple) return 0;
  return kind.collective == Collective::all_reduce ? 3 : 2;
}

// Threads of a block that a kernel needs at least: three warps for each stage.
constexpr int least_threads(const KernelKind& kind) { return stages_of(kind) == 0 ? 32 : 3 * 32 * stages_of(kind); }

// And takes at most; see kernels/instances.h.
constexpr int most_threads(const KernelKind& kind, int ranks) {
  // Two blocks fit on a multiprocessor, whatever their registers: LL's threads may have 128, those of others as many as
  // instances.h lets them.
  if (kind.protocol == Protocol::ll) return 256;
  return ranks <= 4 ? 512 : 320;
}

}  // namespace busbw::gpu
