// Launches of one rank of an accelerated communicator, their order, and its end.
#include "library/gpu/run/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "library/common/failure.h"
#include "library/gpu/check/ledger.h"
#include "library/gpu/choose/gradients.h"
#include "library/gpu/run/releaser.h"
#include "library/gpu/watch/background.h"

namespace busbw::gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A peer that has not destroyed the communicator by then does not get to keep our memory.
constexpr seconds patience_with_peers{30};

}  // namespace

Communicator::Communicator(CommunicatorParts parts)
    : parts_(std::move(parts)),
      own_steps_(parts_.ballots && parts_.choices->asks_whether_beside(parts_.ranks)
                     ? std::make_unique<OwnSteps>(device(), *parts_.ballots, parts_.rank, parts_.log != LogLevel::none)
                     : nullptr),
      order_(parts_.memory->device(), parts_.mixes_graphs),
      staged_graphs_(parts_.memory->device()) {
  if (parts_.ballots) {
    lending_ = std::make_shared<Lending>(device(), parts_.ballots->consent(), parts_.rank, parts_.ranks,
                                         parts_.log != LogLevel::none);
  }
  fork_ = device()->create_event();
  join_ = device()->create_event();
  side_streams_.push_back(device()->create_stream());
  constant_.rank = parts_.rank;
  constant_.ranks = parts_.ranks;
  constant_.state = parts_.memory->state();
  constant_.abort = static_cast<const std::uint32_t*>(parts_.memory->abort_word().device);
  constant_.layout = parts_.memory->layout();
  for (int rank = 0; rank < parts_.ranks; ++rank) {
    constant_.scratch[rank] = rank == parts_.rank ? parts_.memory->scratch() : (*parts_.peers)[rank];
  }
  parts_.health->set_abort_word(static_cast<std::uint32_t*>(parts_.memory->abort_word().host));
}

// Peers may still write to our memory: it lives on in the watch until they have closed it.
Communicator::~Communicator() {
  const AsideFromCaptures aside;
  releaser_.reset();
  if (lending_) lending_->close();
  parts_.checker.reset();
  windows_.clear();
  for (const DeviceStream stream : side_streams_) device()->destroy(stream);
  device()->destroy(fork_);
  device()->destroy(join_);
  parts_.health->set_abort_word(nullptr);
  parts_.peers.reset();
  parts_.seat->leave([memory = std::move(parts_.memory)]() mutable { memory.reset(); }, patience_with_peers);
}

Request Communicator::request(const Call& call) const {
  Request request{
      .collective = call.collective, .type = call.type, .op = call.op, .count = call.count, .ranks = parts_.ranks};
  request.copies_first = parts_.copies_first;
  request.staged = parts_.staged;
  return request;
}

// FSDP puts its gathers and scatters into streams of high priority, and tensor parallelism those that it waits for into
// usual ones. Of all-to-alls nothing tells it, and a trial in the program's own steps does (run/own_steps.h).
bool Communicator::runs_beside_work(const Call& call) const {
  switch (call.collective) {
    case Collective::all_reduce:
      return called_for_gradients();
    case Collective::all_to_all:
      return true;
    default:
      return device()->is_urgent(call.stream);
  }
}

Choice Communicator::decide_next(const Call& call) const {
  const Share::Place place = parts_.share->next();
  if (parts_.ballots && parts_.ballots->wants_vote(place.call) && parts_.choices->asks_whether_beside(request(call))) {
    parts_.ballots->vote(place.call, runs_beside_work(call));
  }
  if (own_steps_) own_steps_->see(place.call, call);
  return decide(call, place);
}

Choice Communicator::decide(const Call& call, const Share::Place& place) const {
  if (call.root < 0 || call.root >= parts_.ranks) return {.reason = "the root is no rank"};
  Request request = this->request(call);
  request.beside_work = own_steps_ && own_steps_->overlap(place.call);
  {
    const std::lock_guard lock(guard_);
    request.window = window_of(call) != nullptr;
    request.in_windows = reduces_in_windows(call);
  }
  Layout layout = parts_.memory->layout();
  layout.channels = std::min(layout.channels, place.blocks);
  Choice choice = parts_.choices->choose(request, layout);
  if (choice.algorithm == Algorithm::staged && !device()->can_order_by_words()) {
    return {.reason = "the NVIDIA driver is too old for staged copies (it has no cuStreamBatchMemOp_v2)"};
  }
  if (!choice.accelerated || choice.protocol == Protocol::copy) return choice;
  const KernelKind kind{call.collective, choice.algorithm, choice.protocol};
  if (!parts_.memory->device()->has(kind_of(kind.collective, kind.algorithm, kind.protocol), call.type)) {
    return {.reason = std::string("this build has no kernel for ") + name(choice.algorithm) + "/" +
                      name(choice.protocol) + " on this type"};
  }
  return choice;
}

KernelArguments Communicator::arguments(const Call& call) const {
  KernelArguments arguments = constant_;
  arguments.send = call.send;
  arguments.recv = call.recv;
  arguments.count = reduces(call.collective) ? call.count : call.count * type_bytes(call.type);
  arguments.root = call.root;
  arguments.op = ReduceOp(int(call.op));
  return arguments;
}

void Communicator::launch(const Call& call, const Choice& choice) {
  const Chosen one{call, choice};
  launch({&one, 1}, {&call.stream, 1}, Alone::yes);
}

void Communicator::launch(std::span<const Chosen> calls, StreamOrder::Streams streams) {
  launch(calls, streams, Alone::no);
}

void Communicator::launch(std::span<const Chosen> calls, StreamOrder::Streams streams, Alone alone) {
  in_turn(streams, calls.size(), [&](const Turn& turn) {
    if (parts_.counts) [[unlikely]] {
      launch_checked(turn, calls, alone);
    } else {
      for (const Chosen& one : calls) launch_in(turn, one.call, one.choice);
    }
  });
}

template <class Work>
void Communicator::in_turn(StreamOrder::Streams streams, std::size_t calls, Work work) {
  const std::lock_guard lock(guard_);
  parts_.health->check();
  settle_later();
  const StreamOrder::Streams others = streams.subspan(1);
  const Turn turn = order_.turn(streams.front(), others);
  note_capture(turn);
  count(turn, calls);
  try {
    order_.before(turn, others);
    work(turn);
    order_.after(turn, others);
  } catch (const std::exception& error) {
    // While a graph is captured nothing runs, and the ranks stay in step.
    const auto* const failure = dynamic_cast<const Failure*>(&error);
    if (turn.capture == 0) fail(failure ? failure->code() : ncclSystemError, error.what());
    throw;
  }
}

// With a node of ours at the end of the graph, the line tells whether the graph runs. Without, the graph holds this
// communicator, as it holds NCCL's: what is destroyed while the graph runs, or before it, goes when the graph has gone.
// That is on a thread of the driver's, where nothing may be asked of CUDA.
void Communicator::note_capture(const Turn& turn) {
  if (turn.capture == 0) return;
  parts_.share->keep();
  standing_->graphs = true;
  if (!parts_.mixes_graphs) standing_->blind = true;
  if (parts_.mixes_graphs || held_capture_ == turn.capture) return;
  const auto let_go = [ours = shared_from_this()](Communicator*) mutable {
    // Where there is no thread, its memory stays: nothing may be given back here.
    if (!in_background([ours] {})) new std::shared_ptr<Communicator>(std::move(ours));
  };
  device()->keep(turn.stream, std::shared_ptr<Communicator>(this, let_go));
  held_capture_ = turn.capture;
}

void Communicator::count(const Turn& turn, std::size_t calls) {
  if (turn.capture != 0) return;
  if (standing_->calls.fetch_add(calls) + calls <= parts_.health->limit()) [[likely]]
    return;
  standing_->calls -= calls;
  parts_.health->exceed();
}

void Communicator::attend() {
  parts_.seat->attend(standing_, [weak = weak_from_this()] {
    const std::shared_ptr<Communicator> ours = weak.lock();
    return !ours || ours->idle_now();
  });
}

// Never for long: a launch may wait for a place in a full stream as long as a peer does not come.
bool Communicator::idle_now() {
  const AsideFromCaptures aside;
  std::unique_lock lock(guard_, std::defer_lock);
  for (int i = 0; i < 20 && !lock.try_lock(); ++i) std::this_thread::sleep_for(milliseconds(1));
  if (!lock.owns_lock()) return false;
  try {
    return order_.idle();
  } catch (const Failure&) {
    return false;
  }
}

bool Communicator::launch_norm(const NormCall& call) {
  const std::size_t row_bytes = call.hidden * type_bytes(call.type);
  const NormShape shape = norm_shape(call.rows, row_bytes, constant_.layout, parts_.share->next().blocks);
  if (shape.way == NormWay::alone) return false;
  NormArguments norm = norm_arguments(call);
  KernelArguments all = constant_;
  all.send = norm.all.send;
  all.recv = norm.all.recv;
  all.count = norm.all.count;
  norm.all = all;
  norm.members = std::uint32_t(shape.members);
  in_turn({&call.stream, 1}, 1, [&](const Turn& turn) {
    device()->norm(shape.way, call.type, shape.channels, shape.threads, norm, turn.stream);
    if (parts_.counts) [[unlikely]] {
      Ledger::of_this_process().take();
      Ledger::of_this_process().skip("NCCL has no call with an RMSNorm");
    }
  });
  return true;
}

void Communicator::launch_checked(const Turn& turn, std::span<const Chosen> calls, Alone alone) {
  Ledger& ledger = Ledger::of_this_process();
  Checker* const checker = turn.capture == 0 ? parts_.checker.get() : nullptr;
  if (checker) checker->begin(int(calls.size()));
  for (const Chosen& one : calls) {
    ++launched_;
    ledger.take();
    if (checker) checker->save(one.call, turn.stream, describe(one.choice), launched_);
    launch_in(turn, one.call, one.choice);
    if (checker) checker->keep();
    if (!checker) ledger.skip(turn.capture != 0 ? "captured in a graph" : parts_.why_unchecked);
  }
  if (!checker || alone == Alone::no) return;
  checker->ask_nccl();
  checker->compare();
}

bool Communicator::asks_nccl() {
  const std::lock_guard lock(guard_);
  if (!parts_.checker || !parts_.checker->pending()) return false;
  parts_.checker->ask_nccl();
  return true;
}

void Communicator::compare() {
  const std::lock_guard lock(guard_);
  if (parts_.checker) parts_.checker->compare();
}

void Communicator::launch_in(const Turn& turn, const Call& call, const Choice& choice) {
  if (parts_.log == LogLevel::choices) log(call, choice);
  if (choice.protocol == Protocol::copy) {
    Call here = call;
    here.stream = turn.stream;
    if (choice.algorithm == Algorithm::staged) {
      launch_staged(here, choice, turn.capture);
    } else {
      launch_copies(here, turn.capture);
    }
  } else {
    device()->launch(kind_of(call.collective, choice.algorithm, choice.protocol), call.type, choice.channels,
                     choice.threads, arguments(call), turn.stream);
  }
}

void Communicator::fail(ncclResult_t code, const std::string& sentence) {
  parts_.health->poison(code, sentence);
  parts_.seat->announce_failure(sentence);
}

Turn Communicator::before(DeviceStream stream, int collectives) {
  const std::lock_guard lock(guard_);
  parts_.health->check();
  settle_later();
  const Turn turn = order_.turn(stream);
  count(turn, std::size_t(collectives));
  order_.before(turn);
  return turn;
}

void Communicator::forget(const Turn& turn, int collectives) {
  if (turn.capture == 0) standing_->calls -= std::uint64_t(collectives);
}

void Communicator::after(const Turn& turn, StreamOrder::Streams others) {
  const std::lock_guard lock(guard_);
  order_.after(turn, others);
}

void Communicator::after_later(const Turn& turn, StreamOrder::Streams others) {
  const std::lock_guard lock(guard_);
  later_.emplace_back(turn, std::vector<DeviceStream>(others.begin(), others.end()));
}

// Another thread that holds the lock is in a call, which settles too. Who asks if all is well never waits for it.
void Communicator::settle() {
  const std::unique_lock lock(guard_, std::try_to_lock);
  if (lock.owns_lock()) settle_later();
}

// The program may not use the communicator again before NCCL is done with the call, so that it is in its stream now.
void Communicator::settle_later() {
  for (const auto& [turn, others] : std::exchange(later_, {})) {
    if (device()->capture(turn.stream) == turn.capture) order_.after(turn, others);
  }
}

void Communicator::abort(const std::string& how) {
  if (parts_.health->report(ncclRemoteError, how)) parts_.seat->announce_abort();
}

bool Communicator::idle_within(milliseconds patience) {
  const AsideFromCaptures aside;
  const auto give_up = std::chrono::steady_clock::now() + patience;
  for (;;) {
    rest_if_the_process_ends();
    {
      const std::lock_guard lock(guard_);
      try {
        if (order_.idle()) return true;
      } catch (const Failure&) {
        return true;  // The GPU's context is lost, and with it everything that ran.
      }
    }
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void Communicator::retire(std::shared_ptr<Communicator> ours) {
  // What runs ends by itself or by the abort word; behind the program's own work it may have to wait for longer, and
  // its memory with it.
  if (ours->idle_within(milliseconds(400))) return;
  const bool waits = in_background([ours] {
    while (!ours->idle_within(seconds(1))) {
    }
  });
  // Without a thread to wait, its memory stays: something may still write there.
  if (!waits) new std::shared_ptr<Communicator>(std::move(ours));
}

void Communicator::drain() {
  const AsideFromCaptures aside;
  auto give_up = std::chrono::steady_clock::time_point::max();
  for (;;) {
    {
      const std::lock_guard lock(guard_);
      try {
        if (order_.idle()) return;
      } catch (const Failure&) {
        return;  // The GPU's context is lost, and with it everything that ran.
      }
    }
    const auto now = std::chrono::steady_clock::now();
    // Kernels see the abort word within milliseconds.
    if (parts_.health->code() != ncclSuccess && give_up == std::chrono::steady_clock::time_point::max()) {
      give_up = now + seconds(5);
    }
    if (now > give_up) return;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void Communicator::log(const Call& call, const Choice& choice) {
  const std::string line = std::string(name(call.collective)) + " by " + describe(choice);
  if (line == logged_) return;
  logged_ = line;
  std::fprintf(stderr, "busbw: rank %d: %s from a count of %zu %s on\n", parts_.rank, line.c_str(), call.count,
               type_name(call.type));
}

std::string describe(const Choice& choice) {
  if (!choice.accelerated) return "nccl: " + choice.reason;
  if (choice.algorithm == Algorithm::staged) {
    return text("%s/%s in %d", name(choice.algorithm), name(choice.protocol), choice.channels);
  }
  if (choice.protocol == Protocol::copy) return text("%s/%s", name(choice.algorithm), name(choice.protocol));
  return text("%s/%s %dx%d", name(choice.algorithm), name(choice.protocol), choice.channels, choice.threads);
}

}  // namespace busbw::gpu
