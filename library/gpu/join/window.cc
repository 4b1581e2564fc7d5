// Windows of the peers as this rank's GPU addresses them.
#include "library/gpu/join/window.h"

#include <algorithm>

namespace busbw::gpu {

Window::Window(std::shared_ptr<Device> device, void* memory, std::size_t bytes)
    : device_(std::move(device)), memory_(static_cast<unsigned char*>(memory)), bytes_(bytes) {}

Window::~Window() {
  for (int rank = 0; rank < max_ranks; ++rank) {
    if (opened_[rank]) device_->close_range(range_[rank], opened_[rank]);
  }
}

void Window::open(int rank, const RangeHandle& range, const Descriptor& descriptor) {
  opened_[rank] = device_->open_range(range, descriptor);
  range_[rank] = range;
  address_[rank] = static_cast<unsigned char*>(opened_[rank]) + range.offset;
}

void Window::limit(std::size_t bytes) { bytes_ = std::min(bytes_, bytes); }

bool Window::holds(const void* memory, std::size_t bytes) const {
  const auto* begin = static_cast<const unsigned char*>(memory);
  return begin >= memory_ && begin <= memory_ + bytes_ && bytes <= std::size_t(memory_ + bytes_ - begin);
}

unsigned char* Window::on(int rank, const void* memory) const {
  return address_[rank] + (static_cast<const unsigned char*>(memory) - memory_);
}

}  // namespace busbw::gpu
