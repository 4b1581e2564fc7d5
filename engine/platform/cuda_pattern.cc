// Cutting segments into launches of the pattern kernels, and reading their counter back.
#include "engine/platform/cuda_pattern.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "engine/platform/cuda_image.h"
#include "engine/platform/kernels/kernel_arguments.h"

namespace busbw {
namespace {

constexpr unsigned block_threads = 256;
// Blocks for each multiprocessor: enough to hide memory latency at any occupancy that the kernels reach.
constexpr unsigned blocks_each = 8;
constexpr std::uint64_t window = std::uint64_t{1} << 32;

// Cut where the upper half of the source index changes, as FillStretch asks.
std::vector<FillStretch> stretches_of(void* memory, std::size_t width, std::span<const Segment> segments) {
  std::vector<FillStretch> stretches;
  for (const Segment& segment : segments) {
    const auto start = reinterpret_cast<std::uint64_t>(memory) + segment.offset * width;
    for (std::uint64_t done = 0; done < segment.count;) {
      const std::uint64_t index = segment.source_offset + done;
      const std::uint64_t count = std::min<std::uint64_t>(segment.count - done, window - index % window);
      const bool contributed = segment.source == Segment::Source::contribution;
      stretches.push_back(FillStretch{.address = start + done * width,
                                      .count = count,
                                      .first_index = index,
                                      .rank = contributed ? segment.rank : -1});
      done += count;
    }
  }
  return stretches;
}

const char* load_advice(CudaResult result) {
  switch (result) {
    case cuda::no_binary_for_gpu:
      return "; this build holds no code for this GPU: build with BUSBW_CUDA_ARCHITECTURES naming its architecture";
    case cuda::unsupported_ptx_version:
    case cuda::invalid_image:
      return "; the driver is older than the CUDA compiler of this build: update the driver, or build with the "
             "driver's CUDA version";
    default:
      return "";
  }
}

}  // namespace

CudaPatternKernels::CudaPatternKernels(const CudaDriver& driver, std::string where)
    : driver_(driver), where_(std::move(where)) {}

// Delegates, so that the destructor runs when a step below throws.
CudaPatternKernels::CudaPatternKernels(const CudaDriver& driver, CudaDevice device, std::string where)
    : CudaPatternKernels(driver, std::move(where)) {
  int count = 0;
  driver_.check(driver_.device_get_attribute(&count, cuda::multiprocessor_count, device), "cuDeviceGetAttribute",
                where_);
  multiprocessors_ = static_cast<unsigned>(std::max(count, 1));
  const CudaResult result = driver_.module_load_data(&module_, kernel_image());
  if (result != cuda::success)
    throw Error(ExitCode::cuda, format("cuModuleLoadData on %s failed with %s%s", where_.c_str(),
                                       driver_.describe(result).c_str(), load_advice(result)));
  driver_.check(driver_.memory_allocate(&counter_, sizeof *total_), "cuMemAlloc", where_);
  void* total = nullptr;
  driver_.check(driver_.host_memory_allocate(&total, sizeof *total_), "cuMemAllocHost", where_);
  total_ = static_cast<std::uint64_t*>(total);
}

CudaPatternKernels::~CudaPatternKernels() {
  if (total_ != nullptr) driver_.host_memory_free(total_);
  if (counter_ != 0) driver_.memory_free(counter_);
  if (module_ != nullptr) driver_.module_unload(module_);
}

CudaFunction CudaPatternKernels::find(const std::string& name) {
  CudaFunction function = nullptr;
  driver_.check(driver_.module_get_function(&function, module_, name.c_str()), "cuModuleGetFunction", where_);
  return function;
}

void CudaPatternKernels::launch(CudaFunction function, std::uint64_t bytes, unsigned rows, void* arguments,
                                CudaStream stream) {
  const std::uint64_t needed = bytes / (16 * block_threads) + 1;
  const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(needed, multiprocessors_ * blocks_each));
  void* parameters[] = {arguments};
  driver_.check(driver_.launch_kernel(function, blocks, rows, 1, block_threads, 1, 1, 0, stream, parameters, nullptr),
                "cuLaunchKernel", where_);
}

void CudaPatternKernels::fill(void* memory, const Pattern& pattern, std::span<const Segment> segments,
                              CudaStream stream) {
  const std::size_t width = element_size(pattern.type);
  const std::vector<FillStretch> stretches = stretches_of(memory, width, segments);
  if (stretches.empty()) return;
  const CudaFunction function = find("busbw_fill_" + std::string(name(pattern.type)));
  for (std::size_t first = 0; first < stretches.size(); first += stretches_per_launch) {
    const std::size_t rows = std::min<std::size_t>(stretches.size() - first, stretches_per_launch);
    FillArguments arguments{.kind = static_cast<std::int32_t>(pattern.kind),
                            .ranks = pattern.ranks,
                            .seed = pattern.seed,
                            .stretches = static_cast<std::int32_t>(rows),
                            .stretch = {}};
    std::uint64_t longest = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      arguments.stretch[i] = stretches[first + i];
      longest = std::max(longest, arguments.stretch[i].count);
    }
    launch(function, longest * width, static_cast<unsigned>(rows), &arguments, stream);
  }
}

std::uint64_t CudaPatternKernels::count_wrong(const void* data, const void* expected, std::size_t count,
                                              const Pattern& pattern, CudaStream stream) {
  if (count == 0) return 0;
  const std::size_t width = element_size(pattern.type);
  CountArguments arguments{.data = reinterpret_cast<std::uint64_t>(data),
                           .expected = reinterpret_cast<std::uint64_t>(expected),
                           .count = count,
                           .tolerance = static_cast<std::uint64_t>(tolerance_units(pattern)),
                           .counter = counter_};
  driver_.check(driver_.memset_bytes_async(counter_, 0, sizeof *total_, stream), "cuMemsetD8Async", where_);
  launch(find(format("busbw_count_wrong_%zu", width)), count * width, 1, &arguments, stream);
  driver_.check(driver_.copy_to_host_async(total_, counter_, sizeof *total_, stream), "cuMemcpyDtoHAsync", where_);
  driver_.check(driver_.stream_synchronize(stream), "cuStreamSynchronize", where_);
  return *total_;
}

void CudaPatternKernels::multiply(const ProductShape& shape, CudaAddress left, CudaAddress right, CudaAddress out,
                                  CudaStream stream) {
  if (product_ == nullptr) product_ = find("busbw_product");
  ProductArguments arguments{
      .left = left, .right = right, .out = out, .rows = shape.rows, .columns = shape.columns, .inner = shape.inner};
  const auto tiles = [](int length) { return static_cast<unsigned>((length + product_tile - 1) / product_tile); };
  void* parameters[] = {&arguments};
  driver_.check(driver_.launch_kernel(product_, tiles(shape.columns), tiles(shape.rows), 1, product_threads, 1, 1, 0,
                                      stream, parameters, nullptr),
                "cuLaunchKernel", where_);
}

}  // namespace busbw
