// The text of a table of settings for NCCL, read: which algorithm, protocol and channels for which sizes, measured
// where.
//
//   busbw-tuner 1
//   # Written by `busbw tune nccl`.
//   measured
//   nccl 2.28.9
//   gpu NVIDIA H200
//   driver 580.95.05
//   topology 1f0c5a7be39d2c44
//   ranks 4
//   nodes 1
//   rule all_reduce 0 65536 tree/ll gain=1.06..1.12
//   rule all_reduce 65537 1048576 ring/ll128 channels=8 gain=1.03..1.05
//   rule all_gather 1048577 16777216 default channels=16 chunk=262144 gain=1.02..1.04
//   end 3
//
// `measured` begins a place; its six facts come before its rules, which hold there and nowhere else. A rule is for
// calls of the two sizes and between, in nccl-tests' sizes; `default` leaves algorithm and protocol to NCCL. The last
// line counts the rules, so that a file that was cut off is known. One line that is none of these makes the whole file
// none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "library/tuner/nccl_tuner_abi.h"

namespace busbw::tuner {

inline constexpr int table_version = 1;
inline constexpr std::size_t max_table_bytes = 1 << 20;
inline constexpr std::size_t max_line_bytes = 512;
inline constexpr std::size_t max_rules = 10'000;
inline constexpr std::size_t max_places = 256;

// Where rules were measured, and where this process runs. An empty fact is one that could not be found out.
struct Place {
  std::string nccl;      // 2.28.9
  std::string gpu;       // as the driver names it
  std::string driver;    // 580.95.05
  std::string topology;  // a hash, see facts.h
  std::uint64_t ranks = 0;
  std::uint64_t nodes = 0;
  bool operator==(const Place&) const = default;
};

struct Rule {
  Function function{};
  std::uint64_t from = 0;  // bytes, both included
  std::uint64_t to = 0;
  int algorithm = algo_undefined;  // undefined with the protocol: NCCL's own
  int protocol = proto_undefined;
  int channels = 0;         // 0: NCCL's own
  std::uint64_t chunk = 0;  // bytes; 0: NCCL's own
};

struct Measured {
  Place place;
  std::vector<Rule> rules;
};

using Table = std::vector<Measured>;

// The table, or one sentence that says what is wrong with the text and where.
std::variant<Table, std::string> parse_table(std::string_view text);

// The same of a file, which may be anything: only a regular file of at most max_table_bytes is read.
struct ReadTable {
  std::variant<Table, std::string> table;
  std::string hash;  // of the text, see facts.h
};
ReadTable read_table(const char* path);

// Names as tables and messages spell them.
std::string_view name_of(Function function);
std::string name_of(int algorithm, int protocol);

}  // namespace busbw::tuner
