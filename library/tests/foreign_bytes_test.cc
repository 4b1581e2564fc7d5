// Every reader of foreign bytes in the libraries, fed by foreign_bytes.h.
#include "engine/tests/foreign_bytes.h"

#include <gtest/gtest.h>

#include "library/common/failure.h"
#include "library/gpu/choose/choice_table.h"
#include "library/tuner/table.h"
#include "library/with/elf_file.h"

namespace busbw {
namespace {

using namespace testing::foreign_bytes;

void read_gpu_table(std::string_view data) {
  const std::vector<gpu::Rule> rules = gpu::parse_table(std::string(data));
  if (gpu::parse_table(gpu::write_table(rules)) != rules) throw std::logic_error("a table changes when it is written");
}

const std::vector<Reader>& readers() {
  static Scratch scratch;
  static const std::vector<Reader> all{
      {"tables for NCCL",
       [](std::string_view data) { tuner::parse_table(data); },
       {"busbw-tuner 1\nmeasured\nnccl 2.28.9\ngpu H100\ndriver 550\ntopology x\nranks 8\nnodes 1\n"
        "rule all_reduce 0 1048576 ring/simple channels=16 gain=1.1..1.2\n"
        "rule all_gather 1048577 16777216 default channels=16 chunk=262144 gain=1.02..1.04\nend 2\n"}},
      {"tables of algorithms",
       read_gpu_table,
       {"busbw-table 1\ngpu any\nall_reduce ranks=4 from=0 to=65536 one_shot/ll\n"
        "all_gather ranks=8 from=0 nccl\n"}},
      {"forced algorithms",
       [](std::string_view data) { gpu::parse_forced(std::string(data)); },
       {"one_shot/ll", "all_reduce=two_shot/simple,nccl", "all_gather=nccl"}},
      {"programs",
       [](std::string_view data) { with::fits_this_process(scratch.with(data).c_str()); },
       {std::string("\x7f"
                    "ELF\2\1\1") +
        std::string(9, '\0') + std::string("\3\0>\0\1\0\0\0", 8) + std::string(64, '\0')}},
      {"names of files",
       [](std::string_view data) { with::is_name_of_nccl(std::string(data).c_str()); },
       {"/usr/lib/libnccl.so.2.28.9", "libnccl-1a2b3c4d.so.2", "libnccl-net.so"}},
  };
  return all;
}

class ForeignBytes : public ::testing::TestWithParam<Reader> {};

// Empty where the input was read, else the sentence. What else is thrown is an error of ours.
std::string sentence_about(const std::function<void()>& read) {
  try {
    read();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST_P(ForeignBytes, EndInAValueOrASentence) { run_campaign(GetParam(), sentence_about); }

INSTANTIATE_TEST_SUITE_P(Readers, ForeignBytes, ::testing::ValuesIn(readers()), name_of_reader);

}  // namespace
}  // namespace busbw
