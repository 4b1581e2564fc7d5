// Steps are known by what comes again, and timed by events in the streams of the calls.
#include "library/gpu/run/own_steps.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "library/common/failure.h"

namespace busbw::gpu {
namespace {

constexpr std::uint64_t fewest_calls = 32;
constexpr std::uint64_t fewest_steps = 2;

// So many blocks in a row that take so much more or less: another trial may say something else.
constexpr double other_step = 0.15;
constexpr int unlike_blocks = 3;

// No trial begins behind it, and the last verdict is a long way back.
constexpr std::uint64_t last_number = 4 * Trial::start_point(Trial::start_points - 1);

constexpr std::uint64_t beginning = 0xcbf29ce484222325ull;

std::uint64_t mixed(std::uint64_t sum, std::uint64_t value) {  // FNV-1a, by words
  return (sum ^ value) * 0x100000001b3ull;
}

}  // namespace

std::uint64_t shape_of(const Call& call) {
  std::uint64_t shape = beginning;
  for (const std::uint64_t part :
       {std::uint64_t(call.collective), std::uint64_t(call.type), std::uint64_t(call.op), std::uint64_t(call.count)}) {
    shape = mixed(shape, part);
  }
  return shape;
}

void CallHistory::add(std::uint64_t number, const Call& call) {
  if (next_ == 0) first_ = number;
  next_ = number + 1;
  Seen& seen = calls_[number % most];
  seen.number = number;
  seen.shape = shape_of(call);
  seen.buffer = mixed(seen.shape, reinterpret_cast<std::uintptr_t>(call.send));
  seen.completes = reduces(call.collective) || call.collective == Collective::all_to_all;
}

template <class Same>
std::uint64_t CallHistory::shortest(Same same) const {
  const std::uint64_t known = std::min(next_ - first_, most);
  const auto alike = [&](std::uint64_t a, std::uint64_t b) {
    const bool missing = at(a).number != a;
    return missing == (at(b).number != b) && (missing || same(at(a), at(b)));
  };
  for (std::uint64_t step = 1; 3 * step <= known; ++step) {
    // More than a phase of a step: backward alone repeats a gather and a scatter for each layer.
    const std::uint64_t looked_at = std::max(2 * step, known * 3 / 5);
    if (looked_at + step > known) break;
    std::uint64_t back = 1;
    while (back <= looked_at && alike(next_ - back, next_ - back - step)) ++back;
    if (back > looked_at && completes_within(step)) return step;
  }
  return 0;
}

// Forward alone only gathers. Experts exchange both ways.
bool CallHistory::completes_within(std::uint64_t calls) const {
  for (std::uint64_t back = 1; back <= calls; ++back) {
    if (at(next_ - back).number == next_ - back && at(next_ - back).completes) return true;
  }
  return false;
}

// By buffers first: gradients of one size come again in each step at their own addresses, and shapes alone would take
// each for a step.
std::uint64_t CallHistory::period() const {
  constexpr std::uint64_t least_by_shapes = 8;
  const std::uint64_t by_buffers = shortest([](const Seen& a, const Seen& b) { return a.buffer == b.buffer; });
  if (by_buffers > 0) return by_buffers;
  const std::uint64_t by_shapes = shortest([](const Seen& a, const Seen& b) { return a.shape == b.shape; });
  return by_shapes >= least_by_shapes ? by_shapes : 0;
}

std::uint32_t block_of_steps(std::uint64_t calls_of_a_step) {
  if (calls_of_a_step == 0 || calls_of_a_step > CallHistory::most / 3) return 0;
  const std::uint64_t steps = std::max(fewest_steps, (fewest_calls + calls_of_a_step - 1) / calls_of_a_step);
  return std::uint32_t(steps * calls_of_a_step);
}

OwnSteps::OwnSteps(std::shared_ptr<Device> device, Ballots& ballots, int rank, bool talks)
    : device_(std::move(device)), ballots_(ballots), rank_(rank), talks_(talks) {}

OwnSteps::~OwnSteps() { forget_times(); }

bool OwnSteps::overlap(std::uint64_t number) const {
  return ballots_.decided(number) && ballots_.trial().way(number) != Trial::Way::nccl;
}

void OwnSteps::see(std::uint64_t number, const Call& call) {
  const std::lock_guard lock(guard_);
  if (done_) return;
  Trial& trial = ballots_.trial();
  const bool voted = ballots_.decided(number);
  trial.come_to(number, [&](bool again) { return voted ? next_block(again) : 0u; });
  done_ = number > last_number;
  if (!voted) return;
  if (!history_) history_ = std::make_unique<CallHistory>();
  history_->add(number, call);
  const Trial::Plan plan = trial.plan(number);
  if (plan.trial < 0) return;
  if (plan.trial != plan_.trial) begin(plan);
  const std::uint64_t block = (number - plan.first) / plan.block;
  if (block < begins_.size()) {
    if (!begins_[block]) begin_block(block, call.stream);
    shapes_[block] = mixed(shapes_[block], shape_of(call));
  } else if (!voted_) {
    vote();
  } else if ((number - plan.first) % plan.block == 0) {
    compare_later_block(call.stream);
  }
}

std::uint32_t OwnSteps::next_block(bool again) const {
  if (!history_ || (plan_.trial >= 0 && !again && !again_)) return 0;
  return block_of_steps(history_->period());
}

void OwnSteps::begin(const Trial::Plan& plan) {
  forget_times();
  // Where a rank was not sure, the blocks of both trials count.
  const bool goes_on = plan_.block == plan.block && ballots_.trial().verdict(plan_, plan.first) == Trial::Vote::again;
  if (!goes_on) comparison_.forget();
  plan_ = plan;
  shapes_.fill(beginning);
  captured_ = voted_ = again_ = false;
  expected_ms_ = 0;
  later_blocks_ = 0;
  unlike_ = 0;
}

void OwnSteps::forget_times() noexcept {
  for (DeviceEvent& event : begins_) device_->destroy(std::exchange(event, nullptr));
  for (DeviceEvent& event : later_) device_->destroy(std::exchange(event, nullptr));
}

void OwnSteps::begin_block(std::size_t block, DeviceStream stream) {
  begins_[block] = device_->create_timer();
  if (device_->capture(stream) == 0) {
    device_->record(begins_[block], stream);
  } else {
    captured_ = true;
  }
}

// Once the GPU has come to the last block.
void OwnSteps::vote() {
  const bool timed =
      !captured_ && std::all_of(begins_.begin(), begins_.end(), [](DeviceEvent event) { return event != nullptr; });
  if (timed && !device_->done(begins_.back())) return;
  voted_ = true;
  const bool whole_steps = std::all_of(shapes_.begin(), shapes_.end(), [&](auto shape) { return shape == shapes_[0]; });
  again_ = timed && !whole_steps;
  if (!timed || !whole_steps) {
    // A capture holds what it has for good, and no later trial would change it.
    ballots_.trial().vote(plan_.trial, timed ? Trial::Vote::again : Trial::Vote::nccl);
    return;
  }
  BlockTimes blocks{};
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = device_->milliseconds(begins_[i], begins_[i + 1]);
  comparison_.add(blocks);
  // The first steps of a program are restless.
  again_ = !comparison_.sure();
  const bool ours = comparison_.ours_are_faster();
  const Trial::Vote vote = again_ ? Trial::Vote::again : ours ? Trial::Vote::ours : Trial::Vote::nccl;
  ballots_.trial().vote(plan_.trial, vote);
  if (!again_) expected_ms_ = ours ? comparison_.ours() : comparison_.nccl();
  if (talks_) {
    std::fprintf(stderr,
                 "busbw: rank %d: %u calls of the program took %.2f ms with NCCL and %.2f ms with staged copies; this "
                 "rank is for %s\n",
                 rank_, plan_.block, comparison_.nccl(), comparison_.ours(),
                 again_ ? "another trial"
                 : ours ? "staged copies"
                        : "NCCL");
  }
}

// A batch of another size, a longer text, another model: the same calls beside other work.
void OwnSteps::compare_later_block(DeviceStream stream) {
  if (expected_ms_ == 0 || again_ || device_->capture(stream) != 0) return;
  const auto event = [&](std::uint64_t block) -> DeviceEvent& { return later_[block % later_.size()]; };
  const std::uint64_t now = later_blocks_++;
  if (!event(now)) event(now) = device_->create_timer();
  device_->record(event(now), stream);
  if (now < 2 || !device_->done(event(now - 1))) return;
  const double ratio = device_->milliseconds(event(now - 2), event(now - 1)) / expected_ms_;
  unlike_ = ratio > 1 + other_step || ratio < 1 - other_step ? unlike_ + 1 : 0;
  if (unlike_ < unlike_blocks) return;
  again_ = true;
  history_->forget();
}

}  // namespace busbw::gpu
