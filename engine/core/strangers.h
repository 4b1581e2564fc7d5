// Who called at the meeting place without being of the job, by how it was found out: counted, and told at the end.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/error.h"

namespace busbw {

enum class Stranger { wrong_secret, not_busbw, silent, unfinished, crowded, another_user, another_job };

// The key in the record, and the words of the sentence.
inline constexpr std::array<std::pair<const char*, const char*>, 7> stranger_words{{
    {"wrong_secret", "wrong secret"},
    {"not_busbw", "not busbw"},
    {"silent", "silent"},
    {"unfinished", "stopped in mid-greeting"},
    {"crowded", "dropped in a crowd"},
    {"another_user", "of another user"},
    {"another_job", "of a job of another size, or a rank that had come"},
}};

// One number for each kind, in the order of Stranger.
using StrangerCounts = std::array<int, stranger_words.size()>;

inline long total(const StrangerCounts& counts) {
  long sum = 0;
  for (const int count : counts) sum += count;
  return sum;
}

// "3 connections that were not of this job were refused (2 wrong secret, 1 silent)"; empty where nobody came.
inline std::string sentence_of(const StrangerCounts& counts) {
  const long all = total(counts);
  if (all == 0) return "";
  std::string kinds;
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    if (counts[kind] > 0)
      kinds += format("%s%d %s", kinds.empty() ? "" : ", ", counts[kind], stranger_words[kind].second);
  }
  return format("%ld %s not of this job %s refused (%s)", all,
                all == 1 ? "connection that was" : "connections that were", all == 1 ? "was" : "were", kinds.c_str());
}

// Counted by one thread, read by others.
class StrangerCounter {
 public:
  void add(Stranger kind) { counts_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed); }
  StrangerCounts counts() const {
    StrangerCounts now{};
    for (std::size_t kind = 0; kind < now.size(); ++kind) now[kind] = counts_[kind].load(std::memory_order_relaxed);
    return now;
  }

 private:
  std::array<std::atomic<int>, stranger_words.size()> counts_{};
};

}  // namespace busbw
