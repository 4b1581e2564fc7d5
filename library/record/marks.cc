// Events of the driver around some collectives. An event is taken again when the GPU has passed it. While 64 marks of a
// communicator wait none is added, so that the oldest call that has not begun stays known.
//
// No lock is held while the driver notes an event: that waits where a stream has no room for more work, as in a hang.
#include "library/record/marks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "library/record/recording.h"

namespace busbw::record {

namespace {

constexpr unsigned without_times = 2;
constexpr int not_ready = 600;
// What concerns captures says nothing of the GPU.
constexpr bool is_of_the_gpu(int error) { return error != 0 && error != not_ready && (error < 900 || error > 909); }

}  // namespace

Marks* new_marks() {
  static const bool wanted = [] {
    const char* word = std::getenv("BUSBW_RECORD_MARKS");
    return !word || std::strcmp(word, "0") != 0;
  }();
  return wanted && cuda() && cuda()->can_mark() ? new Marks : nullptr;
}

bool Marks::is_passed(CudaEvent event) {
  const int said = cuda()->event_query(event);
  if (is_of_the_gpu(said)) error_ = said;
  return said == 0;
}

// What the GPU has passed, from the oldest on.
void Marks::take_back() {
  for (; oldest_ < next_; ++oldest_) {
    Slot& slot = slots_[oldest_ % room];
    const State state = slot.state.load(std::memory_order_acquire);
    // Its end may never come, where the call threw.
    if (state == being_made || (state == begun && next_ - oldest_ < room / 2)) return;
    if (state != refused) {
      if (!is_passed(state == whole ? slot.end : slot.begin)) return;
      begun_ = std::max(begun_, slot.first);
      if (state == whole) ended_ = std::max(ended_, slot.last);
    }
    free_.emplace_back(std::exchange(slot.begin, nullptr), std::exchange(slot.end, nullptr));
  }
}

bool Marks::has_events(Slot& slot) {
  if (!free_.empty()) {
    std::tie(slot.begin, slot.end) = free_.back();
    free_.pop_back();
    return true;
  }
  for (CudaEvent* event : {&slot.begin, &slot.end})
    if (!*event && cuda()->event_create(event, without_times) != 0) return false;
  return true;
}

Marks::Slot* Marks::next_slot(CudaContext here) {
  if (!context_) context_ = here;
  if (context_ != here || error_ != 0) return nullptr;
  take_back();
  if (next_ - oldest_ >= room || error_ != 0) return nullptr;
  Slot& slot = slots_[next_ % room];
  if (!has_events(slot)) return nullptr;
  slot.state.store(being_made, std::memory_order_relaxed);
  slot.number = next_++;
  return &slot;
}

Mark Marks::begin(const void* stream, std::uint64_t first, std::uint64_t last, std::uint64_t now_ns) {
  const AsideFromCaptures aside;
  CudaContext here = nullptr;
  marked_ns_.store(now_ns, std::memory_order_relaxed);
  if (cuda()->context(&here) != 0 || !here) return {};
  Slot* slot = nullptr;
  CudaEvent event = nullptr;
  {
    const std::lock_guard lock(guard_);
    slot = next_slot(here);
    if (!slot) return {};
    slot->first = first;
    slot->last = last;
    slot->stream = folded(stream);
    event = slot->begin;
  }
  marked_.store(last, std::memory_order_relaxed);
  const Mark mark{this, slot->number, stream};
  // Refused where the stream is another context's.
  const bool worked = cuda()->event_record(event, stream) == 0;
  slot->state.store(worked ? begun : refused, std::memory_order_release);
  return worked ? mark : Mark{};
}

void Marks::end(const Mark& mark, bool worked) {
  Slot& slot = slots_[mark.number % room];
  CudaEvent event = nullptr;
  {
    const std::lock_guard lock(guard_);
    if (slot.number != mark.number || mark.number < oldest_) return;
    event = slot.end;
  }
  const AsideFromCaptures aside;
  worked = worked && cuda()->event_record(event, mark.stream) == 0;
  slot.state.store(worked ? whole : refused, std::memory_order_release);
}

bool Marks::look(Pulse& pulse) {
  const std::lock_guard lock(guard_);
  if (!context_ || cuda()->set_context(context_) != 0) return false;
  const AsideFromCaptures aside;
  take_back();
  std::uint64_t begun_to = begun_, ended_to = ended_;
  for (std::uint64_t number = oldest_; number < next_ && error_ == 0; ++number) {
    Slot& slot = slots_[number % room];
    const State state = slot.state.load(std::memory_order_acquire);
    if (state != begun && state != whole) continue;
    if (is_passed(slot.begin)) {
      begun_to = std::max(begun_to, slot.first);
    } else if (!pulse.not_begun) {
      pulse.not_begun = std::uint32_t(slot.first);
      pulse.stream = slot.stream;
    }
    if (state == whole && is_passed(slot.end)) {
      ended_to = std::max(ended_to, slot.last);
    } else if (!pulse.not_ended) {
      pulse.not_ended = std::uint32_t(slot.first);
      if (!pulse.not_begun) pulse.stream = slot.stream;
    }
  }
  pulse.begun = std::uint32_t(begun_to);
  pulse.ended = std::uint32_t(ended_to);
  pulse.error = error_;
  return oldest_ < next_ && error_ == 0;
}

}  // namespace busbw::record
