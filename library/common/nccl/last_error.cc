// Keeps this thread's last sentence.
#include "library/common/nccl/last_error.h"

namespace busbw {
namespace {

struct Last {
  bool ours = false;
  std::string sentence;
};
thread_local Last last;

}  // namespace

ncclResult_t remember(ncclResult_t code, const std::string& sentence) {
  last.ours = true;
  last.sentence = sentence;
  return code;
}

void forget() { last.ours = false; }

const char* remembered() { return last.ours ? last.sentence.c_str() : nullptr; }

}  // namespace busbw
