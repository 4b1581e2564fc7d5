// Chooses kernels: what each can do, how many channels suit a size, and which rule decides.
#include "library/gpu/choose/choice.h"

#include <algorithm>
#include <tuple>

#include "library/common/failure.h"
#include "library/gpu/choose/built_in.h"
#include "library/gpu/run/staged.h"

namespace busbw::gpu {
namespace {

// Staged copies are put into their streams piece by piece, and each takes the host some 40 us.
constexpr int most_pieces = max_channels;
constexpr std::uint64_t staged_piece = 16 * MiB;

// Fewer packs than a warp has lanes leave lanes idle, and another channel costs a block.
constexpr std::uint64_t warp = 32;

constexpr std::uint16_t bit(ncclDataType_t type) { return std::uint16_t(1u << type); }
constexpr std::uint16_t sentinel_types = bit(ncclFloat16) | bit(ncclFloat32) | bit(ncclBfloat16);

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0); }

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? no_limit : result;
}

// The bytes that a kernel cuts up among its channels: the vector, or what one rank has for one other.
std::uint64_t vector_bytes(const Request& request) { return product(request.count, type_bytes(request.type)); }

constexpr std::uint64_t pack_bytes(Protocol protocol) { return protocol == Protocol::ll ? 8 : 16; }

// Of a channel's packs, ranks that share them: the owners of a two-shot, or none but one.
int sharers(const KernelKind& kind, const Request& request) {
  return kind.algorithm == Algorithm::two_shot ? request.ranks : 1;
}

// Packs of one share of one channel that the scratch has room for.
std::uint64_t room(Protocol protocol, const Layout& layout) {
  switch (protocol) {
    case Protocol::ll:
      return ll_packets;
    case Protocol::sentinel:
      return layout.sentinel_packs;
    case Protocol::simple:
      return no_limit;  // goes round its slots
    case Protocol::copy:
      return no_limit;  // needs none
  }
  return 0;
}

std::uint64_t least_channels(const KernelKind& kind, const Request& request, const Layout& layout) {
  const std::uint64_t packs = ceil_div(vector_bytes(request), pack_bytes(kind.protocol));
  return std::max<std::uint64_t>(1, ceil_div(packs, product(sharers(kind, request), room(kind.protocol, layout))));
}

bool exists(const KernelKind& kind) {
  return std::any_of(std::begin(all_kinds), std::end(all_kinds), [&](const KernelKind& known) {
    return known.collective == kind.collective && known.algorithm == kind.algorithm && known.protocol == kind.protocol;
  });
}

// What no kernel does, whatever it is.
Obstacle general_obstacle(const Request& request) {
  if (request.ranks < 2 || request.ranks > max_ranks) return Obstacle::ranks;
  if (!type_name(request.type)) return Obstacle::type;
  if (reduces(request.collective) && (request.op < 0 || request.op >= ncclNumOps)) return Obstacle::op;
  // Byte offsets of all ranks' parts stay within 63 bits.
  if (size_bytes(request) > no_limit / 2) return Obstacle::too_long;
  return request.count == 0 ? Obstacle::nothing_to_do : Obstacle::none;
}

const char* words(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::none:
      return "";
    case Obstacle::nothing_to_do:
      return "there is nothing to move";
    case Obstacle::no_kernel:
      return "there is no such kernel for this collective";
    case Obstacle::type:
      return "the kernel does not take this type";
    case Obstacle::op:
      return "the kernels do sum, prod, max, min and avg only";
    case Obstacle::ranks:
      return "the kernels are for 2 to 8 ranks";
    case Obstacle::too_long:
      return "the message is longer than the kernel's scratch takes";
    case Obstacle::too_short:
      return "the message is too short to give every rank a share";
    case Obstacle::no_window:
      return "the output is in no symmetric window of the communicator, or overlaps the input";
    case Obstacle::shared_process:
      return "staged copies take a process for each rank";
    case Obstacle::few_queues:
      return "staged copies take the 8 hardware queues that CUDA gives without CUDA_DEVICE_MAX_CONNECTIONS";
  }
  return "";
}

// Measured by busbw_kernel_sweep on H200. LL and sentinels are fastest with a pack for every thread, small blocks and
// as many of them as there are; then the blocks grow. Simple wants many blocks, and large ones where it reduces.
struct Shape {
  std::uint64_t channels;
  int threads;
};

Shape shape_by_size(const KernelKind& kind, const Request& request) {
  // Two pieces, so that the links have work while one is added; more only where the scratch is full.
  if (kind.algorithm == Algorithm::staged) {
    return {std::min<std::uint64_t>(2, ceil_div(vector_bytes(request), staged_piece)), 32};
  }
  if (kind.protocol == Protocol::copy) return {1, 32};
  if (kind.protocol == Protocol::simple) {
    return {std::min<std::uint64_t>(ceil_div(size_bytes(request), 16 * KiB), max_channels),
            reduces(kind.collective) ? 512 : 384};
  }
  const std::uint64_t packs =
      ceil_div(vector_bytes(request), pack_bytes(kind.protocol) * std::uint64_t(sharers(kind, request)));
  // Notes and barriers of direct sentinels cost by the block: they take larger ones at once.
  const bool by_block = kind.algorithm == Algorithm::direct && kind.protocol == Protocol::sentinel;
  const std::uint64_t small = by_block ? 0 : sharers(kind, request) > 1 ? 8 * KiB : 16 * KiB;
  const int threads = packs <= small ? 128 : packs <= 32 * KiB ? 256 : 512;
  // On two ranks, two packs for each thread cost less than a kernel that is too large to be brought to the GPU early
  // (cuda_device.cc); two-shots have two under way together anyway.
  const std::uint64_t few = by_block ? 32 * KiB : 64 * KiB;
  const bool half = kind.protocol == Protocol::sentinel && request.ranks == 2 && packs <= few;
  return {std::min<std::uint64_t>(ceil_div(packs, std::uint64_t(threads)), half ? 64 : max_channels), threads};
}

// A communicator among many may take few blocks; a vector that wants many more is faster by NCCL (64 MiB on four H200:
// NCCL 332 us, ours 320 with 128 blocks, 397 with 32, 744 with 16).
bool too_few_blocks(const Use& use, const Request& request, const Layout& layout) {
  if (use.protocol == Protocol::copy || layout.channels >= max_channels / 2) return false;
  const Shape wanted = shape_by_size({request.collective, use.algorithm, use.protocol}, request);
  return wanted.channels > 2 * std::uint64_t(layout.channels);
}

Choice left_to_nccl(const std::string& reason) { return {.reason = reason}; }

Choice start(const KernelKind& kind, const Use& use, const Request& request, const Layout& layout) {
  const Shape grown = shape_by_size(kind, request);
  const ChannelRange range = channel_range(kind, request, layout);
  const std::uint64_t wanted =
      use.channels ? std::uint64_t(use.channels) : std::max<std::uint64_t>(grown.channels, std::uint64_t(range.least));
  return {.accelerated = true,
          .algorithm = kind.algorithm,
          .protocol = kind.protocol,
          .channels = int(std::min<std::uint64_t>(wanted, std::uint64_t(range.most))),
          .threads = std::clamp(use.threads ? use.threads : grown.threads, least_threads(kind),
                                most_threads(kind, request.ranks))};
}

bool matches(const Rule& rule, const Request& request, std::uint64_t bytes) {
  return (rule.ranks == 0 || rule.ranks == request.ranks) && (rule.types >> request.type & 1) && rule.from <= bytes &&
         bytes <= rule.to;
}

bool is_for(Calls calls, const Request& request) {
  return calls == Calls::any || (calls == Calls::beside_work ? request.beside_work : request.in_windows);
}

// FNV-1a: no secret, only the same on every machine.
std::uint64_t hash(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const unsigned char byte : text) value = (value ^ byte) * 0x100000001b3u;
  return value;
}

std::string canonical(const std::array<std::optional<Use>, collective_count>& forced,
                      const std::array<std::vector<Rule>, collective_count>& rules) {
  std::string out;
  for (int i = 0; i < collective_count; ++i) {
    out += forced[i] ? write_use(*forced[i]) + "\n" : "free\n";
    out += write_table(rules[i]);
  }
  return out;
}

}  // namespace

std::uint64_t size_bytes(const Request& request) {
  const std::uint64_t bytes = vector_bytes(request);
  switch (request.collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
      return bytes;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return product(bytes, std::uint64_t(request.ranks));
  }
  return bytes;
}

Obstacle obstacle(const KernelKind& kind, const Request& request, const Layout& layout) {
  if (const Obstacle general = general_obstacle(request); general != Obstacle::none) return general;
  if (kind.collective != request.collective || !exists(kind)) return Obstacle::no_kernel;
  // What is only moved keeps its bits (kernels/sentinel_direct.h).
  const bool changes_nans = kind.protocol == Protocol::sentinel && reduces(kind.collective);
  if (changes_nans && !(sentinel_types >> request.type & 1)) return Obstacle::type;
  // Every peer must hear from every other in each call of these protocols, or a set is filled again while it is read.
  const std::uint64_t packs = ceil_div(vector_bytes(request), pack_bytes(kind.protocol));
  if (kind.protocol == Protocol::copy) {
    if (kind.algorithm != Algorithm::staged) return request.window ? Obstacle::none : Obstacle::no_window;
    if (request.staged != Obstacle::none) return request.staged;
    const std::uint64_t pieces = least_pieces(kind.collective, vector_bytes(request), layout);
    return pieces > std::uint64_t(most_pieces) ? Obstacle::too_long : Obstacle::none;
  }
  const bool counts_calls = kind.protocol == Protocol::ll || kind.protocol == Protocol::sentinel;
  if (counts_calls && packs < std::uint64_t(sharers(kind, request))) return Obstacle::too_short;
  if (least_channels(kind, request, layout) > std::uint64_t(layout.channels)) return Obstacle::too_long;
  return Obstacle::none;
}

ChannelRange channel_range(const KernelKind& kind, const Request& request, const Layout& layout) {
  if (kind.algorithm == Algorithm::staged) {
    const std::uint64_t least = least_pieces(kind.collective, vector_bytes(request), layout);
    return {int(std::min<std::uint64_t>(least, most_pieces)), most_pieces};
  }
  if (kind.protocol == Protocol::copy) return {1, 1};
  const std::uint64_t packs = ceil_div(vector_bytes(request), pack_bytes(kind.protocol));
  const std::uint64_t most = std::clamp<std::uint64_t>(packs / warp, 1, std::uint64_t(layout.channels));
  return {int(least_channels(kind, request, layout)), int(most)};
}

Choices Choices::from_settings(const std::string& forced, const std::string& table_text, const std::string& gpu_name,
                               Preference prefer) {
  Choices choices;
  for (const auto& [collective, use] : parse_forced(forced)) {
    for (int i = 0; i < collective_count; ++i) {
      std::optional<Use>& mine = choices.forced_[i];
      if (collective ? *collective == Collective(i) : !mine) mine = use;
    }
  }
  if (!table_text.empty()) {
    for (Rule& rule : parse_table(table_text)) {
      const bool for_us = rule.gpu.empty() || rule.gpu == gpu_name;
      rule.gpu.clear();
      if (for_us) choices.rules_[int(rule.collective)].push_back(rule);
    }
  }
  for (const Rule& rule : built_in_rules(gpu_name, prefer)) choices.rules_[int(rule.collective)].push_back(rule);
  choices.fingerprint_ = hash(canonical(choices.forced_, choices.rules_));
  return choices;
}

Choice Choices::choose(const Request& request, const Layout& layout) const {
  if (const Obstacle general = general_obstacle(request); general != Obstacle::none) {
    return left_to_nccl(words(general));
  }
  const auto attempt = [&](const Use& use) -> std::optional<Choice> {
    const KernelKind kind{request.collective, use.algorithm, use.protocol};
    if (!applicable(kind, request, layout)) return std::nullopt;
    if (use.channels && use.channels < channel_range(kind, request, layout).least) return std::nullopt;
    return start(kind, use, request, layout);
  };
  if (const std::optional<Use>& forced = forced_[int(request.collective)]) {
    if (forced->nccl) return left_to_nccl("BUSBW_ALGORITHM says so");
    if (const std::optional<Choice> choice = attempt(*forced)) return *choice;
    const Obstacle why = obstacle({request.collective, forced->algorithm, forced->protocol}, request, layout);
    return left_to_nccl(
        "BUSBW_ALGORITHM is " + write_use(*forced) + ", but " +
        (why == Obstacle::none ? "so few channels have too little scratch for the message" : words(why)));
  }
  if (request.copies_first && request.window) {
    if (const std::optional<Choice> choice = attempt(direct_copy)) return *choice;
  }
  const std::uint64_t bytes = size_bytes(request);
  for (const Rule& rule : rules_[int(request.collective)]) {
    if (!matches(rule, request, bytes) || !is_for(rule.calls, request)) continue;
    if (rule.use.nccl) return left_to_nccl("NCCL is faster there on this table");
    if (too_few_blocks(rule.use, request, layout))
      return left_to_nccl("NCCL is faster than the few blocks that this communicator has");
    if (const std::optional<Choice> choice = attempt(rule.use)) return *choice;
  }
  return left_to_nccl("no kernel of the table can do it");
}

bool Choices::asks_whether_beside(const Request& request) const {
  const auto kernel = [&](bool beside_work) {
    Request as = request;
    as.beside_work = beside_work;
    const Choice choice = choose(as);
    return std::tuple(choice.accelerated, choice.algorithm, choice.protocol);
  };
  return kernel(true) != kernel(false);
}

bool Choices::may_stage(int ranks) const {
  for (int i = 0; i < collective_count; ++i) {
    if (forced_[i] && !forced_[i]->nccl && forced_[i]->algorithm == Algorithm::staged) return true;
    if (forced_[i]) continue;
    const bool one = std::any_of(rules_[i].begin(), rules_[i].end(), [&](const Rule& rule) {
      return !rule.use.nccl && rule.use.algorithm == Algorithm::staged && (rule.ranks == 0 || rule.ranks == ranks);
    });
    if (one) return true;
  }
  return false;
}

bool Choices::asks_whether_beside(int ranks) const {
  for (int i = 0; i < collective_count; ++i) {
    if (forced_[i]) continue;
    for (const Rule& rule : rules_[i]) {
      if (rule.calls == Calls::beside_work && (rule.ranks == 0 || rule.ranks == ranks)) return true;
    }
  }
  return false;
}

}  // namespace busbw::gpu
