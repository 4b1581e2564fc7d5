// Visits every state that a small model of a protocol can reach, breadth first, so that the first wrong state comes
// with a shortest way to it.
//
// A model has a State without padding, start(), each_step(state, emit) and done(state). emit(next, event, wrong) is
// called for every step that some rank or the network can take; `wrong` is a sentence where the step breaks the rule.
// A state without steps that is not done is a deadlock.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "library/common/failure.h"

namespace busbw::gpu::model {

struct Event {
  const char* what = "start";
  int rank = 0;
  int peer = 0;
  int number = 0;  // of a call or a chunk
};

struct Verdict {
  std::string wrong;  // empty: no state breaks a rule
  std::string trace;  // a line per step that leads there
  std::size_t states = 0;
};

template <typename Model>
class Search {
 public:
  using State = typename Model::State;
  static_assert(std::has_unique_object_representations_v<State>, "states are compared as bytes");

  explicit Search(const Model& model) : model_(model) {}

  Verdict run(std::size_t most_states = 4'000'000) {
    visit(model_.start(), 0, {});
    for (std::size_t at = 0; at < nodes_.size(); ++at) {
      const State state = *nodes_[at].state;
      bool moved = false;
      std::string wrong;
      model_.each_step(state, [&](const State& next, const Event& event, const char* rule) {
        moved = true;
        if (!wrong.empty()) return;
        const std::size_t node = visit(next, at, event);
        if (rule) wrong = rule, at_fault_ = node;
      });
      if (!wrong.empty()) return {wrong, trace(at_fault_), nodes_.size()};
      if (!moved && !model_.done(state)) return {"deadlock", trace(at), nodes_.size()};
      if (nodes_.size() > most_states) return {"more states than the search may visit", "", nodes_.size()};
    }
    return {"", "", nodes_.size()};
  }

 private:
  struct Node {
    const State* state;  // owned by index_, whose keys stay where they are
    std::size_t parent;
    Event event;
  };
  struct Hash {
    std::size_t operator()(const State& state) const {
      return std::hash<std::string_view>()({reinterpret_cast<const char*>(&state), sizeof state});
    }
  };
  struct Equal {
    bool operator()(const State& a, const State& b) const { return std::memcmp(&a, &b, sizeof a) == 0; }
  };

  std::size_t visit(const State& state, std::size_t parent, const Event& event) {
    const auto [entry, fresh] = index_.try_emplace(state, nodes_.size());
    if (fresh) nodes_.push_back({&entry->first, parent, event});
    return entry->second;
  }

  std::string trace(std::size_t node) const {
    std::vector<std::string> lines;
    for (; node != 0; node = nodes_[node].parent) {
      const Event& e = nodes_[node].event;
      lines.push_back(text("rank %d, peer %d: %s %d\n", e.rank, e.peer, e.what, e.number));
    }
    std::string all;
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) all += *line;
    return all;
  }

  const Model& model_;
  std::unordered_map<State, std::size_t, Hash, Equal> index_;
  std::vector<Node> nodes_;
  std::size_t at_fault_ = 0;
};

template <typename Model>
Verdict search(const Model& model) {
  return Search<Model>(model).run();
}

}  // namespace busbw::gpu::model
