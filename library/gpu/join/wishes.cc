// Reads ncclConfig_t as the NCCL behind us does: the first `size` bytes, then the environment over it.
#include "library/gpu/join/wishes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace busbw::gpu {
namespace {

// What NCCL itself takes at most on NVLink.
constexpr int sparing_blocks = 32;

std::optional<int> number(const char* variable) {
  const char* value = std::getenv(variable);
  if (!value || !*value) return std::nullopt;
  char* end = nullptr;
  const long parsed = std::strtol(value, &end, 0);
  // NCCL ignores what is no number, and so do we.
  if (*end != '\0' || parsed < 0 || parsed > 0x7fffffff) return std::nullopt;
  return int(parsed);
}

// A number, or names with | between them.
std::optional<int> policy_from_environment() {
  if (const std::optional<int> bits = number("NCCL_CTA_POLICY")) return bits;
  const char* value = std::getenv("NCCL_CTA_POLICY");
  if (!value || !*value) return std::nullopt;
  const std::string names = value;
  int bits = NCCL_CTA_POLICY_DEFAULT;
  if (names.find("EFFICIENCY") != std::string::npos) bits |= NCCL_CTA_POLICY_EFFICIENCY;
  if (names.find("ZERO") != std::string::npos) bits |= NCCL_CTA_POLICY_ZERO;
  return bits;
}

class Reader {
 public:
  explicit Reader(const ncclConfig_t* config) : bytes_(reinterpret_cast<const char*>(config)) {
    if (config) std::memcpy(&size_, bytes_ + offsetof(ncclConfig_t, size), sizeof size_);
  }
  void read(int& to, std::size_t offset) const {
    int value = NCCL_CONFIG_UNDEF_INT;
    if (!bytes_ || offset + sizeof value > size_) return;
    std::memcpy(&value, bytes_ + offset, sizeof value);
    if (value != NCCL_CONFIG_UNDEF_INT) to = value;
  }

 private:
  const char* bytes_;
  std::size_t size_ = 0;
};

}  // namespace

int Wishes::ceiling() const {
  return policy == NCCL_CTA_POLICY_DEFAULT ? most_blocks : std::min(most_blocks, sparing_blocks);
}

Wishes wishes_of(const ncclConfig_t* config, const Wishes& otherwise) {
  Wishes wishes = otherwise;
  int blocking = wishes.blocking ? 1 : 0;
  const Reader reader(config);
  reader.read(blocking, offsetof(ncclConfig_t, blocking));
  reader.read(wishes.least_blocks, offsetof(ncclConfig_t, minCTAs));
  reader.read(wishes.most_blocks, offsetof(ncclConfig_t, maxCTAs));
  reader.read(wishes.policy, offsetof(ncclConfig_t, CTAPolicy));
  blocking = number("NCCL_COMM_BLOCKING").value_or(blocking);
  wishes.least_blocks = number("NCCL_MIN_CTAS").value_or(wishes.least_blocks);
  wishes.most_blocks = number("NCCL_MAX_CTAS").value_or(wishes.most_blocks);
  wishes.policy = policy_from_environment().value_or(wishes.policy);
  wishes.blocking = blocking != 0;
  wishes.most_blocks = std::max(1, wishes.most_blocks);
  wishes.least_blocks = std::clamp(wishes.least_blocks, 1, wishes.most_blocks);
  return wishes;
}

}  // namespace busbw::gpu
