// A matrix product on processors that runs in a thread of its own, beside what a rank does.
#pragma once

#include <memory>
#include <vector>

#include "engine/platform/device.h"

namespace busbw {

// `cpus`: where its thread runs; empty: anywhere.
std::unique_ptr<Product> make_host_product(const ProductShape& shape, std::vector<int> cpus);

}  // namespace busbw
