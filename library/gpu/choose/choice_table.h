// The text of a table of algorithms, read and written, and of BUSBW_ALGORITHM.
//
//   busbw-table 1
//   # Written by `busbw tune`.
//   gpu NVIDIA H200
//   all_reduce ranks=4 type=half,bfloat16,float from=0 to=65536 one_shot/ll@16x128
//   all_reduce ranks=4 from=65537 to=1048576 two_shot/ll
//   all_reduce from=67108865 nccl
//
// A line is a rule for calls of `from` to `to` bytes, both included, in nccl-tests' sizes. What it leaves out holds for
// any: ranks, type, sizes. `calls=beside` holds for a communicator whose all-reduces of such sizes come from PyTorch's
// DDP (gradients.h), and whose other calls from streams of high priority, as FSDP's (`calls=gradients` is its old
// name); `calls=windows` for calls whose buffers lie in symmetric windows. `@CxT` is at most C channels (blocks) of T
// threads, else both grow with the size. Rules after a `gpu` line hold for GPUs of that name (`gpu any`: of all). The
// first rule that matches and whose kernel can do the call decides.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "busbw/nccl_abi.h"
#include "library/gpu/choose/names.h"

namespace busbw::gpu {

// More threads a block than any kernel is compiled for are refused where they are read.
inline constexpr int max_threads = 512;

// NCCL, or a kernel and how it is started; 0 channels and threads leave that to the size.
struct Use {
  bool nccl = false;
  Algorithm algorithm{};
  Protocol protocol{};
  int channels = 0;
  int threads = 0;
  bool operator==(const Use&) const = default;
};

// Which calls a rule is for, beside those that it names.
enum class Calls : std::uint8_t { any, beside_work, windows };

inline constexpr std::uint16_t any_type = (1u << ncclNumTypes) - 1;

struct Rule {
  std::string gpu;  // empty: any
  Collective collective{};
  int ranks = 0;                   // 0: any
  std::uint16_t types = any_type;  // bit t for NCCL's type t
  std::uint64_t from = 0;          // bytes
  std::uint64_t to = std::numeric_limits<std::uint64_t>::max();
  Calls calls = Calls::any;
  Use use;
  bool operator==(const Rule&) const = default;
};

// nccl-tests' names; nullptr for a number that is no type.
const char* type_name(ncclDataType_t type);
std::uint64_t type_bytes(ncclDataType_t type);

// These throw a Failure that names the line, or the part, and what is expected there.
std::vector<Rule> parse_table(const std::string& text);
// Pairs of a collective, or none for "all others", and what is forced.
std::vector<std::pair<std::optional<Collective>, Use>> parse_forced(const std::string& text);

std::string write_table(const std::vector<Rule>& rules);
std::string write_use(const Use& use);

// Where `busbw tune` saves a table and the library looks for one: busbw/gpu-table.txt in XDG_CONFIG_HOME, or in
// ~/.config. Empty without a home.
std::string default_table_path();

// The text of the table that BUSBW_TABLE names, else of the one at the default path, else empty. Throws a Failure that
// names the file if it is no table, or is named and cannot be read.
std::string table_text_from_environment();

}  // namespace busbw::gpu
