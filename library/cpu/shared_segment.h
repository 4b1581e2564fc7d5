// The shared memory of one communicator: a segment without a name, its typed contents, and one mapping per process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "busbw/nccl_abi.h"
#include "library/common/descriptor.h"
#include "library/common/failure.h"
#include "library/common/process.h"
#include "library/cpu/layout.h"

namespace busbw::cpu {

enum class Attendance : std::uint32_t { absent = 0, arriving = 1, present = 2, left = 3 };

// What one rank tells the others about itself; written before `attendance` becomes present.
struct RankRecord {
  std::atomic<Attendance> attendance;
  ProcessIdentity process;
  CpuSet cpus;
};
static_assert(sizeof(RankRecord) <= Layout::record_bytes);

struct SegmentHeader {
  // Written last by rank 0: everything else is valid once it holds `segment_magic`.
  std::atomic<std::uint64_t> magic;
  std::uint32_t version;
  std::int32_t ranks;
  std::uint64_t total_bytes;
  // Rank 0's settings hold for all: ranks that disagreed on an algorithm would wait for each other for ever.
  std::uint64_t short_max_bytes;
  std::uint64_t short_before_direct_bytes;
  std::uint64_t chunk_bytes;
  std::uint32_t force_staged;
  std::atomic<std::uint32_t> attached;
  // 0, or an ncclResult_t that every rank's pending and later calls return, with `failure_text` as the reason.
  std::atomic<std::uint32_t> failure;
  std::atomic<std::uint32_t> failure_claimed;
  char failure_text[512];
};
static_assert(sizeof(SegmentHeader) <= page);

inline constexpr std::uint64_t segment_magic = 0x7570632d77627362;  // "bsbw-cpu"
inline constexpr std::uint32_t segment_version = 2;

// The first line of a slot. `flag` is epoch << 32 | what and is stored last; the rest is its payload.
struct alignas(64) HeaderLine {
  std::atomic<std::uint64_t> flag;
  std::uint64_t count;
  std::uint64_t scalar;
  unsigned char inline_data[40];
};
static_assert(sizeof(HeaderLine) == 64);

// The first failure wins; every rank's pending and later calls return it.
void announce_failure(SegmentHeader& header, ncclResult_t code, const std::string& sentence);

class SharedSegment {
 public:
  // Rank 0: creates the segment. Others: waits until it is there, and checks every field before trusting it.
  // Ranks of one process share one mapping, so that their atomics have one address (and one translation).
  static std::shared_ptr<SharedSegment> create(const std::string& name, int ranks);
  static std::shared_ptr<SharedSegment> attach(const std::string& name, int ranks, double limit_seconds);
  // Rank 0 has failed: those of its process that wait for it, or come later, fail alike and at once.
  static void give_up(const std::string& name, const Failure& failure);
  static void give_up_without_memory(const std::string& name) noexcept;
  // Rank 0, while it waits for the others: hands the memory to those at the door. Nothing in a file system has its
  // name, so that a kill at any moment leaves nothing; only `give_name`, for ranks that cannot reach the door
  // (containers that share /dev/shm but no network namespace) and say so, makes a file until all have come. Rank 0
  // holds a lock on it: one without is removed by the next process that makes a communicator.
  void serve(const std::string& name);
  void give_name(const std::string& name);
  // Whether a rank that found no door asks for a name: it holds a lock on the folder, which no kill can leave behind.
  static bool name_is_wished(const std::string& name);
  void close_door();
  // Removes such a file; the memory lives on until the last mapping goes.
  static void unlink(const std::string& name);

  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  const Layout& layout() const { return layout_; }
  SegmentHeader& header() { return *at<SegmentHeader>(0); }
  RankRecord& record(int rank) { return *at<RankRecord>(layout_.record_offset(rank)); }
  HeaderLine& line(int rank, Epoch epoch) {
    const std::size_t index = std::size_t(rank) * slot_sets + std::size_t(slot_set(epoch));
    return *reinterpret_cast<HeaderLine*>(slots_ + index * slot_stride_);
  }
  unsigned char* slot(int rank, Epoch epoch) {
    return reinterpret_cast<unsigned char*>(&line(rank, epoch)) + sizeof(HeaderLine);
  }
  unsigned char* bytes(std::size_t offset) { return base_ + offset; }

  template <class T>
  T* at(std::size_t offset) {
    return reinterpret_cast<T*>(base_ + offset);
  }

 private:
  static std::shared_ptr<SharedSegment> make(const std::string& name, int ranks);
  SharedSegment(int descriptor, Layout layout);

  Layout layout_;
  unsigned char* base_ = nullptr;
  // layout_.slot_offset(0, 0) and its stride: looked up in every call.
  unsigned char* slots_ = nullptr;
  std::size_t slot_stride_ = 0;
  // Of rank 0's process until all have come: the memory, and the socket through which it is handed out.
  Descriptor file_, door_;
};

}  // namespace busbw::cpu
