// A rendezvous of one process: no sockets, no threads, nothing to wait for.
#include <mutex>

#include "engine/rendezvous/rendezvous.h"

namespace busbw {
namespace {

class Alone final : public Rendezvous {
 public:
  explicit Alone(const Placement& placement) : placement_(placement) {}

  const Placement& placement() const override { return placement_; }
  std::vector<std::string> all_gather(std::string_view mine) override { return {std::string(mine)}; }
  void barrier() override {}
  std::vector<double> all_gather(double mine) override { return {mine}; }

  // Several threads of the process may fail; the first counts.
  void announce(const Failure& failure) noexcept override {
    try {
      std::call_once(once_, [&] {
        first_ = failure;
        failure_.store(&first_, std::memory_order_release);
      });
    } catch (...) {
      // Out of memory for a sentence: there is nobody else to tell.
    }
  }
  const Failure* failure() const noexcept override { return failure_.load(std::memory_order_acquire); }
  void on_failure(std::function<void(const Failure&)>) override {}
  void leave() override {}

 private:
  Placement placement_;
  Failure first_;
  std::once_flag once_;
  std::atomic<const Failure*> failure_{nullptr};
};

}  // namespace

std::unique_ptr<Rendezvous> Rendezvous::alone(const Placement& placement) { return std::make_unique<Alone>(placement); }

}  // namespace busbw
