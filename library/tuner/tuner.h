// What the plugin decides for one communicator: the newest interface, to which each file v2.cc to v7.cc adapts an
// older.
//
// It can only help or stay out of the way: whatever is wrong with the table, NCCL decides by itself, after one sentence
// in NCCL's log. Every function returns ncclSuccess then, since newer NCCL fail the call on anything else.
//
//   BUSBW_TUNER_TABLE   the table; else busbw/nccl-tuner.txt in XDG_CONFIG_HOME or ~/.config
//   BUSBW_TUNER_ALIKE   the table's hash: says that all nodes of the job have this table and are machines alike
//   BUSBW_TUNER_FACTS   a file into which what this process runs on is written, as a place of a table
#pragma once

#include <cstddef>
#include <cstdint>

#include "library/tuner/nccl_tuner_abi.h"

namespace busbw::tuner {

inline constexpr const char* plugin_name = "busbw";

ncclResult_t begin(void** context, std::size_t ranks, std::size_t nodes, Logger logger) noexcept;

// Makes the rule's entry of `costs` (rows x columns) the least and sets `channels`, where a rule is for the call and
// NCCL can do what it says.
ncclResult_t choose(void* context, Function function, std::size_t bytes, float* costs, int rows, int columns,
                    int* channels) noexcept;

ncclResult_t choose_chunk(void* context, Function function, std::size_t bytes, int algorithm, int protocol,
                          std::size_t* chunk_bytes) noexcept;

ncclResult_t end(void* context) noexcept;

}  // namespace busbw::tuner
