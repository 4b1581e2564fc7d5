// Which processors this process may use, and which are near a GPU.
#pragma once

#include <string>
#include <vector>

namespace busbw {

// How many processors this thread may run on.
int usable_processors();

// Processors that this thread may run on, in ascending order.
std::vector<int> allowed_cpus();

// Processors that a thread may run on here when nobody has bound it: those of the control group, else all of the
// machine. Empty where the system does not tell.
std::vector<int> unbound_cpus(const std::string& root = "/");

struct CpuChoice {
  std::vector<int> cpus;  // empty: leave the thread as it is
  std::string why_not;    // a sentence, where there is something to say
};

// The processors to run on near a GPU: those near it that this process may use. None where a launcher has bound the
// process already (`allowed` is less than `unbound`), or where they would be fewer than two for each of the host's
// ranks, which would then wait for each other.
CpuChoice choose_cpus(const std::vector<int>& near, const std::vector<int>& allowed, const std::vector<int>& unbound,
                      int ranks_of_host);

// False where the system refuses.
bool bind_this_thread(const std::vector<int>& cpus) noexcept;

// Reads "0-15,64-79"; empty for anything else.
std::vector<int> cpus_of_list(const std::string& list);

}  // namespace busbw
