// A clock, a barrier and a stream that a test sets: time passes only where something is done.
#pragma once

#include <string>

#include "engine/measure/nccl_tests_way.h"
#include "engine/measure/precise_way.h"

namespace busbw {

constexpr double microsecond = 1e-6;

// A host whose time passes only when it does something, and a device that works through what was started.
struct World {
  double now = 0;         // seconds, of the host
  double busy_until = 0;  // of the device
  double launch = 1 * microsecond;
  double call = 10 * microsecond;
  double hiccup = 0;            // so much longer takes the next call
  double others_arrive = 0;     // when the other threads come to the barrier
  std::vector<double> factors;  // what the other threads measure, by what this one does
  std::vector<std::string> log;

  void enqueue(double seconds) {
    now += launch;
    busy_until = std::max(busy_until, now) + seconds;
  }
  long count(const std::string& word) const { return std::count(log.begin(), log.end(), word); }
};

class FakeClock final : public Clock {
 public:
  explicit FakeClock(World& world) : world_(world) {}
  Seconds now() override { return Seconds(world_.now); }

 private:
  World& world_;
};

class FakeBarrier final : public Barrier {
 public:
  explicit FakeBarrier(World& world) : world_(world) {}
  void wait() override { world_.log.emplace_back("wait"); }
  void line_up() override {
    world_.log.emplace_back("line up");
    world_.now = std::max(world_.now, world_.others_arrive);
  }
  std::vector<double> all_gather(double mine) override {
    std::vector<double> all{mine};
    for (const double factor : world_.factors) all.push_back(mine * factor);
    return all;
  }

 private:
  World& world_;
};

class FakeGraph final : public Graph {
 public:
  FakeGraph(World& world, long calls) : world_(world), calls_(calls) {}
  void instantiate() override { world_.log.emplace_back("instantiate"); }
  void launch() override {
    world_.log.emplace_back("launch");
    world_.enqueue(static_cast<double>(calls_) * world_.call);
  }

 private:
  World& world_;
  const long calls_;
};

class FakeEvents final : public Events {
 public:
  FakeEvents(World& world, std::size_t count) : world_(world), at_(count) {}
  void record(std::size_t index) override { at_.at(index) = std::max(world_.now, world_.busy_until); }
  Seconds between(std::size_t from, std::size_t to) override { return Seconds(at_.at(to) - at_.at(from)); }

 private:
  World& world_;
  std::vector<double> at_;
};

class FakeWork final : public Work {
 public:
  explicit FakeWork(World& world) : world_(world) {}
  void start(int call) override {
    world_.log.emplace_back(capturing_ ? "record" : "start");
    calls.push_back(call);
    if (capturing_) {
      ++captured_;
    } else {
      world_.enqueue(world_.call + std::exchange(world_.hiccup, 0));
    }
  }
  void complete(const char*) override {
    world_.log.emplace_back("complete");
    world_.now = std::max(world_.now, world_.busy_until);
  }
  void begin_group() override { world_.log.emplace_back("begin group"); }
  void end_group() override { world_.log.emplace_back("end group"); }
  void abandon_group() noexcept override { world_.log.emplace_back("abandon group"); }
  bool groupable() const override { return groups; }
  EventsOfStreams make_events(std::size_t count) override {
    EventsOfStreams events;
    events.push_back(std::make_unique<FakeEvents>(world_, count));
    return events;
  }
  void begin_capture() override { capturing_ = true; }
  Graphs end_capture() override {
    capturing_ = false;
    Graphs graphs;
    graphs.push_back(std::make_unique<FakeGraph>(world_, std::exchange(captured_, 0)));
    return graphs;
  }

  bool groups = true;
  std::vector<int> calls;

 private:
  World& world_;
  bool capturing_ = false;
  long captured_ = 0;
};

}  // namespace busbw
