// In numbers that a person reads, and in JSON for programs.
#include "library/tests/gpu/stress/account.h"

#include <cstdio>

namespace busbw::stress {

void Account::count(const Batch& batch, std::uint64_t drawn, const Limits& limits, bool tells) {
  drawn_ = drawn;
  ++by_manner_[static_cast<std::size_t>(batch.manner)];
  for (const Drawn& call : batch.calls) by_collective_[limits.kinds[static_cast<std::size_t>(call.kind)].name] += 1;
  const double now = seconds();
  if (!tells || now < told_ + 5) return;
  told_ = now;
  std::fprintf(stderr, "busbw_stress: %llu calls in %.0f s, none wrong\n", static_cast<unsigned long long>(drawn), now);
}

void Account::summarise(const Failure* failure, int ranks, const std::string& library) const {
  const double took = seconds();
  if (options_.restless) std::printf("stress: %d communicators were unmade and made again on the way\n", renewed_);
  std::printf("stress: %s, %llu calls by %d ranks in %.1f s, seed %llu, %s\n",
              failure == nullptr ? "0 wrong" : "FAILED", static_cast<unsigned long long>(drawn_), ranks, took,
              static_cast<unsigned long long>(options_.seed), library.c_str());
  std::fflush(stdout);
  if (options_.result.empty()) return;
  FILE* file = std::fopen(options_.result.c_str(), "w");
  if (file == nullptr) return;
  std::fprintf(file, "{\"calls\": %llu, \"ranks\": %d, \"seconds\": %.3f, \"seed\": %llu, \"exit\": %d, ",
               static_cast<unsigned long long>(drawn_), ranks, took, static_cast<unsigned long long>(options_.seed),
               failure == nullptr ? 0 : static_cast<int>(failure->code));
  std::fprintf(file, "\"batches\": {\"eager\": %llu, \"grouped\": %llu, \"captured\": %llu, \"replayed\": %llu}",
               static_cast<unsigned long long>(by_manner_[0]), static_cast<unsigned long long>(by_manner_[1]),
               static_cast<unsigned long long>(by_manner_[2]), static_cast<unsigned long long>(by_manner_[3]));
  std::fprintf(file, ", \"by_collective\": {");
  const char* comma = "";
  for (const auto& [name, calls] : by_collective_) {
    std::fprintf(file, "%s\"%s\": %llu", comma, name.c_str(), static_cast<unsigned long long>(calls));
    comma = ", ";
  }
  std::fprintf(file, "}}\n");
  std::fclose(file);
}

}  // namespace busbw::stress
