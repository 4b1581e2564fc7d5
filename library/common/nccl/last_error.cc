// Keeps this thread's last sentence.
#include "library/common/nccl/last_error.h"

#include <type_traits>

namespace busbw {
namespace {

// Without a destructor: destructors of the program's own objects may still call us when a thread's have run.
struct Last {
  bool ours = false;
  char sentence[1024] = {};
};
static_assert(std::is_trivially_destructible_v<Last>);
thread_local Last last;

}  // namespace

ncclResult_t remember(ncclResult_t code, const std::string& sentence) {
  last.ours = true;
  last.sentence[sentence.copy(last.sentence, sizeof last.sentence - 1)] = '\0';
  return code;
}

void forget() { last.ours = false; }

const char* remembered() { return last.ours ? last.sentence : nullptr; }

}  // namespace busbw
