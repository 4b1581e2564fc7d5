// Looks at what the proxy sleeps in.
#include "engine/platform/deaf_proxy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "engine/platform/process.h"

namespace busbw {
namespace {

constexpr int most_between = 16;  // wrappers between the proxy and a rank of it
constexpr int looks_in_a_row = 4;
constexpr std::chrono::milliseconds pause{500};
constexpr std::chrono::seconds start_of_a_rank{10};  // a proxy that has started all of its ranks passes signals on

int proxy_above() {
  int pid = getppid();
  for (int step = 0; step < most_between && pid > 1; ++step) {
    if (command_of(pid) == "hydra_pmi_proxy") return pid;
    pid = stat_of(pid).parent;
  }
  return 0;
}

}  // namespace

DeafProxy::DeafProxy() {
  const char* descriptor = std::getenv("PMI_FD");
  if (descriptor == nullptr) return;
  char* rest = nullptr;
  const long number = std::strtol(descriptor, &rest, 10);
  if (rest == descriptor || *rest != '\0' || number < 0 || number > 1 << 20) return;
  descriptor_ = static_cast<int>(number);
  pid_ = proxy_above();
}

bool DeafProxy::may_come() const { return pid_ != 0 && Clock::now() - began_ < start_of_a_rank; }

bool DeafProxy::found() {
  if (!may_come() || Clock::now() < next_) return false;
  next_ = Clock::now() + pause;
  looks_ = fcntl(descriptor_, F_GETFD) >= 0 && waits_for_a_child(pid_) ? looks_ + 1 : 0;
  return looks_ >= looks_in_a_row;
}

}  // namespace busbw
