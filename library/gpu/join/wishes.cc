// Reads ncclConfig_t as the NCCL behind us does: the first `size` bytes, then the environment over it.
#include "library/gpu/join/wishes.h"

#include <algorithm>
#include <cctype>
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

// What NCCL calls a graphUsageMode with graphs and eager calls side by side.
constexpr int mixing = 2;

// As NCCL reads a setting that is not there, or no number: 0.
long long number_as_nccl(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? std::strtoll(value, nullptr, 0) : 0;
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
  int graphs = wishes.mixes_graphs ? mixing : 0;
  reader.read(graphs, offsetof(ncclConfig_t, graphUsageMode));
  wishes.mixes_graphs = graphs >= mixing;
  if (const char* value = std::getenv("NCCL_GRAPH_MIXING_SUPPORT"); value && *value) {
    wishes.mixes_graphs = number_as_nccl("NCCL_GRAPH_MIXING_SUPPORT") != 0;
  }
  blocking = number("NCCL_COMM_BLOCKING").value_or(blocking);
  wishes.least_blocks = number("NCCL_MIN_CTAS").value_or(wishes.least_blocks);
  wishes.most_blocks = number("NCCL_MAX_CTAS").value_or(wishes.most_blocks);
  wishes.policy = policy_from_environment().value_or(wishes.policy);
  wishes.blocking = blocking != 0;
  wishes.most_blocks = std::max(1, wishes.most_blocks);
  wishes.least_blocks = std::clamp(wishes.least_blocks, 1, wishes.most_blocks);
  return wishes;
}

std::string what_bars_ours() {
  // Set where reading a peer's memory gives wrong data or hangs (IOMMU, ACS).
  if (number_as_nccl("NCCL_P2P_DISABLE") == 1) return "NCCL_P2P_DISABLE is 1";
  if (const char* level = std::getenv("NCCL_P2P_LEVEL"); level && *level) {
    const bool a_number = std::isdigit(static_cast<unsigned char>(*level)) != 0;
    if (a_number ? number_as_nccl("NCCL_P2P_LEVEL") == 0 : std::string(level) == "LOC") {
      return "NCCL_P2P_LEVEL lets no GPU reach another one";
    }
  }
  if (number_as_nccl("NCCL_CHECK_POINTERS") == 1) return "NCCL_CHECK_POINTERS lets NCCL look at each call's pointers";
  if (const char* mode = std::getenv("NCCL_CHECK_MODE"); mode && std::string(mode).find("DEBUG") != std::string::npos) {
    return "NCCL_CHECK_MODE lets NCCL look at each call";
  }
  return "";
}

}  // namespace busbw::gpu
