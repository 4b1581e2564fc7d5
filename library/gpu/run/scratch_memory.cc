// The memory of one rank that its peers write to, and theirs as it is seen here.
#include <utility>

#include "library/gpu/run/communicator.h"

namespace busbw::gpu {
namespace {

// A quiet NaN in half, bfloat16 and float alike.
constexpr std::uint32_t sentinel_word = 0xFFFAFFFA;

}  // namespace
ScratchMemory::ScratchMemory(std::shared_ptr<Device> device, int ranks, int channels)
    : device_(std::move(device)), layout_(Layout::of(ranks, channels)) {
  scratch_ = static_cast<unsigned char*>(device_->allocate(layout_.bytes));
  state_ = static_cast<ChannelState*>(device_->allocate(sizeof(ChannelState) * std::size_t(layout_.channels)));
  abort_word_ = device_->allocate_host(sizeof(std::uint32_t));
  words_ = device_->allocate_host(Layout::words_bytes);
  for (int lane = 0; lane < staged_lanes; ++lane) {
    for (int which = 0; which < staged_words; ++which) {
      for (int writer = 0; writer < max_ranks; ++writer) {
        const std::uint64_t at = layout_.staged_word(lane, StagedWord(which), writer) - layout_.words_start;
        static_cast<std::uint32_t*>(words_.host)[at / sizeof(std::uint32_t)] = told_by(StagedWord(which));
      }
    }
  }
}

void ScratchMemory::settle(int channels) {
  layout_ = Layout::of(layout_.ranks, channels);
  device_->fill(scratch_ + layout_.sentinel_start, sentinel_word, layout_.simple_start - layout_.sentinel_start);
}

// A device shields captures from release() itself. A guard here would ask for the devices in use, which this thread may
// outlive.
ScratchMemory::~ScratchMemory() {
  device_->release(scratch_);
  device_->release(state_);
  device_->release(abort_word_);
  device_->release(words_);
}

void ScratchMemory::release_waits(DeviceStream stream) const {
  device_->copy_in(scratch_ + layout_.words_start, words_.host, Layout::words_bytes, stream);
}

void PeerMemory::open(int rank, const MemoryHandle& handle) {
  address_[rank] = static_cast<unsigned char*>(device_->open(handle));
  opened_[rank] = true;
}

void PeerMemory::reach(int rank, int ordinal, void* address) {
  if (ordinal != device_->facts().ordinal) device_->reach(ordinal);
  address_[rank] = static_cast<unsigned char*>(address);
}

void PeerMemory::close() {
  for (int rank = 0; rank < max_ranks; ++rank) {
    if (opened_[rank]) device_->close(address_[rank]);
    opened_[rank] = false;
    address_[rank] = nullptr;
  }
}

}  // namespace busbw::gpu
