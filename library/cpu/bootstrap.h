// How ranks of a communicator find each other: the contents of an ncclUniqueId and the meeting in shared memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "busbw/nccl_abi.h"
#include "library/cpu/settings.h"
#include "library/cpu/shared_segment.h"

namespace busbw::cpu {

// The 128 bytes of an ncclUniqueId of this library; a stranger's until check() has passed.
struct UniqueId {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t uid;
  // Of the host that made it: ranks elsewhere cannot see its shared memory.
  std::uint64_t boot_id;
  unsigned char name[16];
  unsigned char unused[88];

  static UniqueId make();
  static UniqueId from(const ncclUniqueId& id);
  ncclUniqueId to_nccl() const;
  // Throws a Failure that says why this id cannot be used here.
  void check() const;
  std::string segment_name() const;
};
static_assert(sizeof(UniqueId) == NCCL_UNIQUE_ID_BYTES);

struct Meeting {
  std::shared_ptr<SharedSegment> segment;
  double timeout_seconds = 0;
  // Processors that the ranks may use between them.
  int processors = 1;
  Stores stores = Stores::automatic;
};

// Returns when every rank is there; names those that are missing when they do not come in time.
Meeting meet(const UniqueId& id, int ranks, int rank);

}  // namespace busbw::cpu
