// Memory of the program that every rank has registered as a symmetric window (ncclCommWindowRegister with
// NCCL_WIN_COLL_SYMMETRIC) and that this rank's GPU can write on its peers.
//
// NCCL's promise of such a window holds for ours: where one rank passes a buffer in it to a collective, all do, at the
// same offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "library/gpu/cuda/device.h"

namespace busbw::gpu {

class Window {
 public:
  // Own memory, of as many bytes as the window has on every rank.
  Window(std::shared_ptr<Device> device, void* memory, std::size_t bytes);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // A peer's window: of another process, or of this one.
  void open(int rank, const RangeHandle& range, const Descriptor& descriptor);
  void reach(int rank, void* memory) { address_[rank] = static_cast<unsigned char*>(memory); }
  bool reaches(int rank) const { return address_[rank] != nullptr; }
  void limit(std::size_t bytes);

  bool holds(const void* memory, std::size_t bytes) const;
  // Where a peer has what lies here at `memory`.
  unsigned char* on(int rank, const void* memory) const;

 private:
  std::shared_ptr<Device> device_;
  unsigned char* memory_;
  std::size_t bytes_;
  unsigned char* address_[max_ranks] = {};
  void* opened_[max_ranks] = {};  // the start of the allocation that a window of another process lies in
  RangeHandle range_[max_ranks] = {};
};

}  // namespace busbw::gpu
