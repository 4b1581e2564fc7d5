// Writes down what a rank's streams do for a collective by copy engines.
#include "library/gpu/run/staged.h"

#include <algorithm>

#include "library/gpu/kernels/range.h"

namespace busbw::gpu {
namespace {

constexpr std::uint64_t pack = 16;

// Shares of one piece that lie side by side in the vector: one for each rank, or only one.
std::uint64_t sharers(Collective collective, const Layout& layout) {
  return collective == Collective::all_reduce ? std::uint64_t(layout.ranks) : 1;
}

// Packs of a share that a lane has room for.
std::uint64_t room(Collective collective, const Layout& layout) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return layout.staged_slot(layout.ranks - 1) / pack;
    case Collective::all_gather:
      return layout.staged_slot(1) / pack;
    case Collective::broadcast:
      break;
  }
  return 1;
}

class Plan {
 public:
  explicit Plan(const StagedRequest& request)
      : r_(request), layout_(request.layout), packs_(packs_of(request.bytes, pack)) {}

  std::vector<StagedStep> write() {
    if (r_.lent) return write_lent();
    // One piece ahead: copies to and from peers take their turns in the order in which they were issued, whatever their
    // streams, so that a fetch that waits would hold up the next piece's push.
    begin(0);
    for (int piece = 0; piece < r_.pieces; ++piece) {
      if (piece + 1 < r_.pieces) begin(piece + 1);
      end(piece);
    }
    if (!reduces(r_.collective) && !keeps_what_it_offers()) keep_own();
    return std::move(steps_);
  }

 private:
  using Kind = StagedStep::Kind;

  // Bytes of a vector.
  struct Part {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };

  Part bytes_of(const Range& range) const {
    const std::uint64_t begin = std::min(range.begin * pack, r_.bytes);
    return {begin, std::min(range.end * pack, r_.bytes) - begin};
  }

  // Of a piece, what rank `owner` adds; the whole piece where blocks are apart.
  Part share(int piece, int owner) const {
    const Range range = Range{0, packs_}.part(std::uint64_t(piece), std::uint64_t(r_.pieces));
    if (r_.collective != Collective::all_reduce) return bytes_of(range);
    return bytes_of(range.part(std::uint64_t(owner), std::uint64_t(layout_.ranks)));
  }

  const unsigned char* input(int block) const {
    return static_cast<const unsigned char*>(r_.send) + std::uint64_t(block) * r_.bytes;
  }
  unsigned char* output(int block) const {
    return static_cast<unsigned char*>(r_.recv) + std::uint64_t(block) * r_.bytes;
  }

  StagedStep::Word word(int of, int lane, StagedWord which, int writer) const {
    unsigned char* const at = r_.scratch[std::size_t(of)] + layout_.staged_word(lane, which, writer);
    return {reinterpret_cast<std::uint32_t*>(at), told_by(which)};
  }
  int peer(int i) const { return (r_.rank + i) % layout_.ranks; }
  static int lane_of(int piece) { return piece % staged_lanes; }

  StagedStep& add_step(Kind kind, StagedStep::Stream stream) {
    StagedStep& step = steps_.emplace_back();
    step.kind = kind;
    step.stream = r_.pieces == 1 ? StagedStep::call : stream;
    return step;
  }
  static void name_word(StagedStep& step, const StagedStep::Word& word) {
    step.words[std::size_t(step.word_count++)] = word;
  }

  // All peers at once: between two copies, a word costs more time than a copy of a megabyte.
  void await_peers(StagedStep::Stream stream, int lane, StagedWord which) {
    StagedStep& step = add_step(Kind::await, stream);
    for (int i = 1; i < layout_.ranks; ++i) name_word(step, word(r_.rank, lane, which, peer(i)));
  }
  void tell_peers(StagedStep::Stream stream, int lane, StagedWord which) {
    StagedStep& step = add_step(Kind::set, stream);
    for (int i = 1; i < layout_.ranks; ++i) name_word(step, word(peer(i), lane, which, r_.rank));
  }
  void copy(StagedStep::Stream stream, void* to, const void* from, std::uint64_t bytes, bool within = false) {
    if (bytes == 0) return;
    StagedStep& step = add_step(Kind::copy, stream);
    step.to = to;
    step.from = from;
    step.bytes = bytes;
    step.within = within;
  }
  void copy_within(void* to, const void* from, std::uint64_t bytes) { copy(StagedStep::call, to, from, bytes, true); }

  void begin(int piece) {
    if (reduces(r_.collective)) {
      push(piece);
    } else {
      offer(piece);
    }
  }

  void end(int piece) {
    if (reduces(r_.collective)) sum(piece, r_.collective == Collective::all_reduce);
    if (r_.collective != Collective::reduce_scatter) fetch(piece);
  }

  // The shares of a piece to their owners, who say when a slot is vacant.
  void push(int piece) {
    const int lane = lane_of(piece);
    await_peers(StagedStep::push, lane, StagedWord::vacant);
    for (int i = 1; i < layout_.ranks; ++i) {
      const int to = peer(i);
      const Part part = share(piece, to);
      const unsigned char* from = input(r_.collective == Collective::reduce_scatter ? to : 0) + part.begin;
      copy(StagedStep::push, r_.scratch[std::size_t(to)] + layout_.pushed(lane, to, r_.rank), from, part.bytes);
    }
    tell_peers(StagedStep::push, lane, StagedWord::arrived);
  }

  void sum(int piece, bool offers) {
    const int lane = lane_of(piece);
    StagedStep& waits = add_step(Kind::await, StagedStep::call);
    for (int i = 1; i < layout_.ranks; ++i) {
      name_word(waits, word(r_.rank, lane, StagedWord::arrived, peer(i)));
      if (offers) name_word(waits, word(r_.rank, lane, StagedWord::fetched, peer(i)));
    }
    const Part mine = share(piece, r_.rank);
    unsigned char* const own_scratch = r_.scratch[std::size_t(r_.rank)];
    if (mine.bytes > 0) {
      AddArguments& a = add_step(Kind::add, StagedStep::call).sum;
      a.own = input(offers ? 0 : r_.rank) + mine.begin;
      a.result = output(0) + mine.begin;
      a.offered = offers ? own_scratch + layout_.offered(lane) : nullptr;
      for (int i = 1; i < layout_.ranks; ++i) {
        a.pushed[peer(i)] = own_scratch + layout_.pushed(lane, r_.rank, peer(i));
      }
      a.bytes = mine.bytes;
      a.rank = r_.rank;
      a.ranks = layout_.ranks;
      a.op = r_.op;
    }
    StagedStep& tells = add_step(Kind::set, StagedStep::call);
    for (int i = 1; i < layout_.ranks; ++i) {
      name_word(tells, word(peer(i), lane, StagedWord::vacant, r_.rank));
      if (offers) name_word(tells, word(peer(i), lane, StagedWord::ready, r_.rank));
    }
  }

  // Where a peer finds its part of what is offered: all find the same but for all-to-all.
  std::uint64_t place_of(int owner, int reader) const {
    if (r_.collective != Collective::all_to_all) return 0;
    return std::uint64_t(reader < owner ? reader : reader - 1) * layout_.staged_slot(layout_.ranks - 1);
  }

  void offer(int piece) {
    const int lane = lane_of(piece);
    const Part part = share(piece, r_.rank);
    unsigned char* const offered = r_.scratch[std::size_t(r_.rank)] + layout_.offered(lane);
    await_peers(StagedStep::call, lane, StagedWord::fetched);
    if (r_.collective == Collective::all_gather) {
      copy_within(offered, input(0) + part.begin, part.bytes);
      if (part.bytes > 0 && keeps_what_it_offers() && input(0) != output(r_.rank)) {
        steps_.back().also = output(r_.rank) + part.begin;
      }
    } else {
      for (int i = 1; i < layout_.ranks; ++i) {
        copy_within(offered + place_of(r_.rank, peer(i)), input(peer(i)) + part.begin, part.bytes);
      }
    }
    tell_peers(StagedStep::call, lane, StagedWord::ready);
  }

  void fetch(int piece) {
    const int lane = lane_of(piece);
    await_peers(StagedStep::fetch, lane, StagedWord::ready);
    for (int i = 1; i < layout_.ranks; ++i) {
      const int from = peer(i);
      const Part part = share(piece, from);
      unsigned char* to = output(r_.collective == Collective::all_reduce ? 0 : from) + part.begin;
      copy(StagedStep::fetch, to, r_.scratch[std::size_t(from)] + layout_.offered(lane) + place_of(from, r_.rank),
           part.bytes);
    }
    tell_peers(StagedStep::fetch, lane, StagedWord::fetched);
  }

  // The words are those of one piece that is offered. The call does not end before its buffer has been read: what comes
  // behind it in the stream may write there. The own block goes beside, as the driver may copy it by a kernel, which
  // waits for the end of a product.
  std::vector<StagedStep> write_lent() {
    constexpr int lane = 0;
    await_peers(StagedStep::call, lane, StagedWord::fetched);
    tell_peers(StagedStep::call, lane, StagedWord::ready);
    await_peers(StagedStep::call, lane, StagedWord::ready);
    for (int i = 1; i < layout_.ranks; ++i) {
      const int from = peer(i);
      const std::uint64_t block = r_.collective == Collective::all_to_all ? std::uint64_t(r_.rank) * r_.bytes : 0;
      copy(StagedStep::call, output(from), (*r_.lent)[std::size_t(from)] + block, r_.bytes);
    }
    tell_peers(StagedStep::call, lane, StagedWord::fetched);
    const std::size_t before = steps_.size();
    keep_own();
    if (steps_.size() > before) steps_.back().stream = StagedStep::fetch;
    await_peers(StagedStep::call, lane, StagedWord::fetched);
    steps_.back().kind = Kind::see;
    return std::move(steps_);
  }

  // One copy for each piece instead of two, as each is a kernel that needs room.
  bool keeps_what_it_offers() const { return r_.copies_to_two && r_.collective == Collective::all_gather; }

  // Behind what peers wait for.
  void keep_own() {
    const unsigned char* from = input(r_.collective == Collective::all_to_all ? r_.rank : 0);
    if (from != output(r_.rank)) copy_within(output(r_.rank), from, r_.bytes);
  }

  const StagedRequest& r_;
  const Layout& layout_;
  std::uint64_t packs_;
  std::vector<StagedStep> steps_;
};

}  // namespace

std::uint64_t least_pieces(Collective collective, std::uint64_t bytes, const Layout& layout) {
  const std::uint64_t most = room(collective, layout) * sharers(collective, layout);
  // A piece of one pack more than its even part still has to fit.
  return std::max<std::uint64_t>(1, packs_of(packs_of(bytes, pack), most));
}

std::vector<StagedStep> staged_plan(const StagedRequest& request) { return Plan(request).write(); }

}  // namespace busbw::gpu
