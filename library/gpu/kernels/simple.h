// Collectives of the Simple protocol, whose rows of slots simple_channel.h describes.
//
// A block is a pipeline of stages (stage.h): some send, some receive, and all of them work at once, on different steps.
#pragma once

#include "library/gpu/kernels/simple_channel.h"

namespace busbw::gpu {

// All-reduce, two shots; in each step, rank r owns share r.
//
//     stage 0   push the shares of a step to their owners             port 0
//     stage 1   reduce the own share of a step, push it to all        port 0 --> port 1
//     stage 2   copy the other shares of a step into the output       port 1
template <typename T, int Most>
BUSBW_DEVICE void all_reduce_two_shot_simple(const KernelArguments& a) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const PackRow<16> in(a.send, bytes);
  const PackRow<16> out(a.recv, bytes);
  SimpleChannel channel(a);
  const Stage stage(a, 3);
  const Range part = channel_part(packs_of(bytes, 16));
  const std::uint32_t steps = channel.steps(part.size(), a.ranks);
  const auto share = [&](std::uint32_t step, int owner) { return part.part(step, steps).part(owner, a.ranks); };
  if (stage.index() == 0) {
    stage.run(
        steps, [&](std::uint32_t t, int peer) { channel.wait_free(0, peer, t); },
        [&](std::uint32_t t) {
          for (int i = 1; i < a.ranks; ++i) {
            const int peer = peer_after(a, i);
            copy_to_slot(stage, in, share(t, peer), channel.target(0, peer, t));
          }
        },
        [&](std::uint32_t t, int peer) { channel.announce(0, peer, t); });
  } else if (stage.index() == 1) {
    stage.run(
        steps,
        [&](std::uint32_t t, int peer) {
          channel.wait_filled(0, peer, t);
          channel.wait_free(1, peer, t);
        },
        [&](std::uint32_t t) {
          const Range mine = share(t, a.rank);
          const Slots<Most> slots = targets<Most>(a, channel, 1, t);
          with_rows(in, out, mine.end, [&](const auto& own, const auto& result_row, auto) {
            reduce_slots<T, Most>(a, stage, channel, t, own, mine, [&](std::uint64_t i, const Pack<16>& result) {
              store_to_all(slots, i, result);
              result_row.store(mine.begin + i, result);
            });
          });
        },
        [&](std::uint32_t t, int peer) {
          channel.give_back(0, peer, t);
          channel.announce(1, peer, t);
        });
  } else if (stage.index() == 2) {
    stage.run(
        steps, [&](std::uint32_t t, int peer) { channel.wait_filled(1, peer, t); },
        [&](std::uint32_t t) {
          for (int i = 1; i < a.ranks; ++i) {
            const int peer = peer_after(a, i);
            copy_from_slot(stage, channel.arrived(1, peer, t), out, share(t, peer));
          }
        },
        [&](std::uint32_t t, int peer) { channel.give_back(1, peer, t); });
  }
  block_sync();
  if (stage.index() == 0)
    stage.once_per_peer([&](int peer) {
      channel.count(0, peer, steps, steps);
      channel.count(1, peer, steps, steps);
    });
}

// The two stages of one hop: `push(t)` fills the slots of step t, `use(t)` takes what has come in it.
template <typename Push, typename Use>
BUSBW_DEVICE void exchange(SimpleChannel& channel, const Stage& stage, std::uint32_t steps, const Push& push,
                           const Use& use) {
  if (stage.index() == 0) {
    stage.run(
        steps, [&](std::uint32_t t, int peer) { channel.wait_free(0, peer, t); }, push,
        [&](std::uint32_t t, int peer) { channel.announce(0, peer, t); });
  } else if (stage.index() == 1) {
    stage.run(
        steps, [&](std::uint32_t t, int peer) { channel.wait_filled(0, peer, t); }, use,
        [&](std::uint32_t t, int peer) { channel.give_back(0, peer, t); });
  }
  block_sync();
  if (stage.index() == 0) stage.once_per_peer([&](int peer) { channel.count(0, peer, steps, steps); });
}

// Reduce-scatter: block r of every vector goes to rank r, which reduces.
template <typename T, int Most>
BUSBW_DEVICE void reduce_scatter_simple(const KernelArguments& a) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const PackRow<16> mine(at(a.send, a.rank * bytes), bytes);
  const PackRow<16> out(a.recv, bytes);
  SimpleChannel channel(a);
  const Stage stage(a, 2);
  const Range part = channel_part(packs_of(bytes, 16));
  const std::uint32_t steps = channel.steps(part.size(), 1);
  exchange(
      channel, stage, steps,
      [&](std::uint32_t t) {
        for (int i = 1; i < a.ranks; ++i) {
          const int peer = peer_after(a, i);
          copy_to_slot(stage, PackRow<16>(at(a.send, peer * bytes), bytes), part.part(t, steps),
                       channel.target(0, peer, t));
        }
      },
      [&](std::uint32_t t) {
        const Range range = part.part(t, steps);
        with_rows(mine, out, range.end, [&](const auto& own, const auto& result_row, auto) {
          reduce_slots<T, Most>(a, stage, channel, t, own, range, [&](std::uint64_t i, const Pack<16>& result) {
            result_row.store(range.begin + i, result);
          });
        });
      });
}

// What came from all the others in one step, into their blocks of the output.
BUSBW_DEVICE void copy_blocks(const KernelArguments& a, const Stage& stage, const SimpleChannel& channel,
                              std::uint32_t step, const Range& range) {
  for (int i = 1; i < a.ranks; ++i) {
    const int peer = peer_after(a, i);
    copy_from_slot(stage, channel.arrived(0, peer, step), PackRow<16>(at(a.recv, peer * a.count), a.count), range);
  }
}

// All-gather: every rank's block to every rank. The sending stage, which reads it, also writes the own copy.
template <int Most>
BUSBW_DEVICE void all_gather_simple(const KernelArguments& a) {
  const PackRow<16> in(a.send, a.count);
  const PackRow<16> own(at(a.recv, a.rank * a.count), a.count);
  const bool in_place = a.send == at(a.recv, a.rank * a.count);
  SimpleChannel channel(a);
  const Stage stage(a, 2);
  const Range part = channel_part(packs_of(a.count, 16));
  const std::uint32_t steps = channel.steps(part.size(), 1);
  exchange(
      channel, stage, steps,
      [&](std::uint32_t t) {
        const Range range = part.part(t, steps);
        const Slots<Most> slots = targets<Most>(a, channel, 0, t);
        with_rows(in, own, range.end, [&](const auto& from, const auto& to, auto packs) {
          stage.for_each<decltype(packs)::size>(
              range.size(), [&](std::uint64_t i, int k) { packs.pack[k] = from.load(range.begin + i); },
              [&](std::uint64_t i, int k) {
                store_to_all(slots, i, packs.pack[k]);
                if (!in_place) to.store(range.begin + i, packs.pack[k]);
              });
        });
      },
      [&](std::uint32_t t) { copy_blocks(a, stage, channel, t, part.part(t, steps)); });
}

// All-to-all: block r of rank p's buffer becomes block p of rank r's.
template <int Most>
BUSBW_DEVICE void all_to_all_simple(const KernelArguments& a) {
  const std::uint64_t own = a.rank * a.count;
  SimpleChannel channel(a);
  const Stage stage(a, 2);
  const Range part = channel_part(packs_of(a.count, 16));
  const std::uint32_t steps = channel.steps(part.size(), 1);
  exchange(
      channel, stage, steps,
      [&](std::uint32_t t) {
        for (int i = 1; i < a.ranks; ++i) {
          const int peer = peer_after(a, i);
          copy_to_slot(stage, PackRow<16>(at(a.send, peer * a.count), a.count), part.part(t, steps),
                       channel.target(0, peer, t));
        }
      },
      [&](std::uint32_t t) {
        const Range range = part.part(t, steps);
        copy_row(stage, PackRow<16>(at(a.send, own), a.count), PackRow<16>(at(a.recv, own), a.count), range);
        copy_blocks(a, stage, channel, t, range);
      });
}

// Broadcast: the root scatters, and each of the others forwards its share to the rest, so that no more than the vector
// itself leaves the root or enters a rank.
//
//     root      stage 0   share r --> rank r                                port 0
//     rank r    stage 0   share r --> every rank but the root, and out      port 0 --> port 1
//               stage 1   the other shares into the output                  port 1
class BroadcastShares {
 public:
  BUSBW_DEVICE BroadcastShares(const KernelArguments& a, const SimpleChannel& channel)
      : a_(a), part_(channel_part(packs_of(a.count, 16))), steps_(channel.steps(part_.size(), a.ranks - 1)) {}

  BUSBW_DEVICE std::uint32_t steps() const { return steps_; }
  BUSBW_DEVICE Range of(std::uint32_t step, int rank) const {
    return part_.part(step, steps_).part(rank < a_.root ? rank : rank - 1, a_.ranks - 1);
  }

 private:
  const KernelArguments& a_;
  Range part_;
  std::uint32_t steps_;
};

BUSBW_DEVICE void broadcast_from_root(const KernelArguments& a, SimpleChannel& channel, const Stage& stage,
                                      const BroadcastShares& shares) {
  const PackRow<16> in(a.send, a.count);
  const PackRow<16> out(a.recv, a.count);
  if (stage.index() == 0) {
    stage.run(
        shares.steps(), [&](std::uint32_t t, int peer) { channel.wait_free(0, peer, t); },
        [&](std::uint32_t t) {
          for (int i = 1; i < a.ranks; ++i) {
            const int peer = peer_after(a, i);
            copy_to_slot(stage, in, shares.of(t, peer), channel.target(0, peer, t));
            if (a.send != a.recv) copy_row(stage, in, out, shares.of(t, peer));
          }
        },
        [&](std::uint32_t t, int peer) { channel.announce(0, peer, t); });
  }
  block_sync();
  if (stage.index() == 0) stage.once_per_peer([&](int peer) { channel.count(0, peer, shares.steps(), 0); });
}

// The share of step t: from the root into the output and on to the others.
template <int Most>
BUSBW_DEVICE void forward_share(const KernelArguments& a, const SimpleChannel& channel, const Stage& stage,
                                const BroadcastShares& shares, std::uint32_t t) {
  const Range mine = shares.of(t, a.rank);
  const unsigned char* slot = channel.arrived(0, a.root, t);
  const Slots<Most> slots = targets<Most>(a, channel, 1, t, a.root);
  with_row(PackRow<16>(a.recv, a.count), mine.end, [&](const auto& out, auto packs) {
    stage.for_each<decltype(packs)::size>(
        mine.size(), [&](std::uint64_t i, int k) { packs.pack[k] = pack_of(load_relaxed(slot + 16 * i)); },
        [&](std::uint64_t i, int k) {
          store_to_all(slots, i, packs.pack[k]);
          out.store(mine.begin + i, packs.pack[k]);
        });
  });
}

template <int Most>
BUSBW_DEVICE void broadcast_to_rank(const KernelArguments& a, SimpleChannel& channel, const Stage& stage,
                                    const BroadcastShares& shares) {
  const PackRow<16> out(a.recv, a.count);
  if (stage.index() == 0) {
    stage.run(
        shares.steps(),
        [&](std::uint32_t t, int peer) {
          if (peer == a.root) channel.wait_filled(0, peer, t);
          if (peer != a.root) channel.wait_free(1, peer, t);
        },
        [&](std::uint32_t t) { forward_share<Most>(a, channel, stage, shares, t); },
        [&](std::uint32_t t, int peer) {
          if (peer == a.root) channel.give_back(0, peer, t);
          if (peer != a.root) channel.announce(1, peer, t);
        });
  } else if (stage.index() == 1) {
    stage.run(
        shares.steps(),
        [&](std::uint32_t t, int peer) {
          if (peer != a.root) channel.wait_filled(1, peer, t);
        },
        [&](std::uint32_t t) {
          for (int i = 1; i < a.ranks; ++i) {
            const int peer = peer_after(a, i);
            if (peer != a.root) copy_from_slot(stage, channel.arrived(1, peer, t), out, shares.of(t, peer));
          }
        },
        [&](std::uint32_t t, int peer) {
          if (peer != a.root) channel.give_back(1, peer, t);
        });
  }
  block_sync();
  if (stage.index() == 0)
    stage.once_per_peer([&](int peer) {
      if (peer == a.root) channel.count(0, peer, 0, shares.steps());
      if (peer != a.root) channel.count(1, peer, shares.steps(), shares.steps());
    });
}

template <int Most>
BUSBW_DEVICE void broadcast_simple(const KernelArguments& a) {
  SimpleChannel channel(a);
  const Stage stage(a, 2);
  const BroadcastShares shares(a, channel);
  if (a.rank == a.root) {
    broadcast_from_root(a, channel, stage, shares);
  } else {
    broadcast_to_rank<Most>(a, channel, stage, shares);
  }
}

}  // namespace busbw::gpu
