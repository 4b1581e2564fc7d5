// What the command line of the stress run asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace busbw::stress {

struct Options {
  std::string library;          // file with the NCCL API
  std::string memory = "auto";  // host, gpu, or as the library's name says
  std::string collectives = "all_reduce,all_gather,reduce_scatter,alltoall,broadcast,reduce,sendrecv";
  std::string result;  // file for a summary in JSON; empty: none
  std::uint64_t calls = 100'000;
  std::uint64_t seed = 1;
  std::size_t largest = std::size_t{16} << 20;
  int threads = 1;  // per process
  int devices = 1;  // per thread
  int communicators = 3;
  int streams = 3;
  int graphs = 3;
  int timeout_seconds = 30;  // of one wait
  double seconds = 0;        // of everything, 0: as long as the calls take
  bool overlap = false;
  bool restless = false;       // streams, graphs and communicators come and go between calls
  bool windows = false;        // half of the output buffers are registered as symmetric windows
  bool trust_library = false;  // a lost rank is for the library to notice; ours is not asked
};

// Throws Error(bad_arguments). `help` is set instead where that was asked for.
Options parse_options(int argc, char** argv, bool& help);
extern const char* const usage;

std::vector<std::string> split_list(const std::string& list);

}  // namespace busbw::stress
