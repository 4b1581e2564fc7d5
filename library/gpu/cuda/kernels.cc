// Kernels of one GPU: found in this build's images, and launched.
#include <algorithm>
#include <string>

#include "library/common/failure.h"
#include "library/gpu/choose/choice_table.h"
#include "library/gpu/cuda/current.h"
#include "library/gpu/cuda/image.h"

namespace busbw::gpu {
namespace {

// Ranks that the variants of a kernel are for.
constexpr int most_ranks_of[] = {2, 4, 8};

// Threads of all blocks of a kernel that may come to the GPU before its turn.
constexpr unsigned most_early_threads = 16384;

// Of the kernel that adds: many small blocks find room as soon as there is some.
constexpr int threads_of_an_adder = 256;
constexpr unsigned most_blocks_of_adders = 4096;

// Of slim kernels. One warp: more find no room beside a product. Blocks: there is room for two on each multiprocessor
// until the product ends, and so for this many sums or copies.
constexpr int threads_of_slim = 32;
constexpr int slim_sums_of_a_product = 4;
constexpr int slim_copies_of_a_product = 8;
constexpr std::uint64_t least_bytes_of_a_slim_block = 8192;
constexpr std::uint64_t most_slim_bytes = 1ull << 31;

bool whole(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0; }

unsigned slim_blocks(const DeviceFacts& facts, std::uint64_t bytes, int of_a_product) {
  const auto most = std::uint64_t(std::max(1, 2 * facts.multiprocessors / of_a_product));
  return unsigned(std::clamp<std::uint64_t>(bytes / least_bytes_of_a_slim_block, 1, most));
}

std::size_t variant_of(int ranks) {
  std::size_t variant = 0;
  while (most_ranks_of[variant] < ranks) ++variant;
  return variant;
}

std::string kernel_name(const KernelKind& kind, ncclDataType_t type, int most_ranks) {
  std::string name = std::string("busbw_") + busbw::gpu::name(kind.collective) + "_" +
                     busbw::gpu::name(kind.algorithm) + "_" + busbw::gpu::name(kind.protocol);
  if (reduces(kind.collective)) name += std::string("_") + type_name(type);
  return name + "_" + std::to_string(most_ranks);
}

}  // namespace

// All of them now: loading one later, while a kernel waits for a peer, can wait for that kernel.
void CudaDevice::load_kernels() {
  std::vector<CudaModule> modules;
  for (int i = 0; i < gpu_kernel_image_count(); ++i) {
    CudaModule module = nullptr;
    const CudaResult result = driver_.module_load_data(&module, gpu_kernel_image(i));
    if (result != cuda::success) {
      why_not_ = "no kernel of this build runs on " + facts_.name + ": " + driver_.describe(result);
      return;
    }
    modules.push_back(module);
  }
  for (std::size_t kind = 0; kind < std::size(kernel_kinds); ++kind)
    for (int type = 0; type < ncclNumTypes; ++type)
      for (std::size_t variant = 0; variant < std::size(most_ranks_of); ++variant)
        kernels_[kind][std::size_t(type)][variant] =
            find_kernel(modules, kernel_name(kernel_kinds[kind], ncclDataType_t(type), most_ranks_of[variant]),
                        most_threads(kernel_kinds[kind], most_ranks_of[variant]));
  for (int type = 0; type < ncclNumTypes; ++type)
    for (std::size_t variant = 0; variant < std::size(most_ranks_of); ++variant)
      adders_[std::size_t(type)][variant] = find_kernel(
          modules,
          std::string("busbw_add_") + type_name(ncclDataType_t(type)) + "_" + std::to_string(most_ranks_of[variant]),
          threads_of_an_adder);
  slim_copy_ = find_kernel(modules, "busbw_slim_copy", threads_of_slim);
  for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16, ncclFloat32})
    for (std::size_t variant = 0; variant < std::size(most_ranks_of); ++variant)
      slim_adders_[std::size_t(type)][variant] = find_kernel(
          modules, std::string("busbw_slim_add_") + type_name(type) + "_" + std::to_string(most_ranks_of[variant]),
          threads_of_slim);
  if (!adders_[ncclFloat32][0]) why_not_ = "this build has no kernel busbw_add_float_2 for " + facts_.name;
  for (const NormWay way : {NormWay::one_shot, NormWay::two_shot, NormWay::alone}) {
    for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16, ncclFloat32}) {
      for (std::size_t variant = 0; variant < std::size(most_ranks_of); ++variant) {
        std::string kernel = std::string("busbw_norm_") + busbw::gpu::name(way) + "_" + type_name(type);
        if (way != NormWay::alone) kernel += text("_%d", most_ranks_of[variant]);
        norms_[std::size_t(way)][std::size_t(type)][variant] = find_kernel(modules, kernel, max_threads);
      }
    }
  }
  meet_ = find_kernel(modules, "busbw_meet", 32);
  if (!meet_) why_not_ = "this build has no kernel busbw_meet for " + facts_.name;
}

// Null where this build has none of this name.
CudaFunction CudaDevice::find_kernel(const std::vector<CudaModule>& modules, const std::string& name,
                                     int threads) const {
  for (const CudaModule module : modules) {
    CudaFunction function = nullptr;
    if (driver_.module_get_function(&function, module, name.c_str()) != cuda::success) continue;
    // With CUDA_MODULE_LOADING=LAZY, the driver's default, this question is what loads it.
    int most = 0;
    if (driver_.function_get_attribute(&most, cuda::most_threads, function) != cuda::success) continue;
    if (most >= threads) return function;
  }
  return nullptr;
}

bool CudaDevice::has(int kind, ncclDataType_t type) const {
  if (kind < 0) return false;
  const auto& variants = kernels_[std::size_t(kind)][std::size_t(type)];
  return std::none_of(variants.begin(), variants.end(), [](CudaFunction kernel) { return kernel == nullptr; });
}

void CudaDevice::start(CudaFunction kernel, const Blocks& blocks, const void* arguments, DeviceStream stream) {
  const Current current(*this);
  void* parameters[] = {const_cast<void*>(arguments)};
  const bool overlaps = blocks.may_come_early && overlaps_ && blocks.count * blocks.threads <= most_early_threads;
  cuda::LaunchAttribute overlap{.id = cuda::programmatic_stream_serialization, .padding = {}, .value = {1}};
  const cuda::LaunchConfig config{.grid_x = blocks.count,
                                  .grid_y = 1,
                                  .grid_z = 1,
                                  .block_x = blocks.threads,
                                  .block_y = 1,
                                  .block_z = 1,
                                  .shared_bytes = 0,
                                  .stream = stream,
                                  .attributes = &overlap,
                                  .attribute_count = overlaps ? 1u : 0u};
  check(driver_.launch(&config, kernel, parameters, nullptr), "cuLaunchKernelEx");
}

void CudaDevice::launch(int kind, ncclDataType_t type, int channels, int threads, const KernelArguments& arguments,
                        DeviceStream stream) {
  start(kernels_[std::size_t(kind)][std::size_t(type)][variant_of(arguments.ranks)],
        {.count = unsigned(channels), .threads = unsigned(threads), .may_come_early = true}, &arguments, stream);
}

void CudaDevice::meet(const KernelArguments& arguments, DeviceStream stream) {
  start(meet_, {.count = 1, .threads = 32, .may_come_early = false}, &arguments, stream);
}

void CudaDevice::order_by_words(const WordStep* steps, std::size_t count, DeviceStream stream) {
  const Current current(*this);
  // As many as the driver takes at once.
  constexpr std::size_t most = 64;
  while (count > 0) {
    cuda::WordOperation operations[most]{};
    const std::size_t now = std::min(count, most);
    for (std::size_t i = 0; i < now; ++i) {
      operations[i].operation = steps[i].waits ? cuda::wait_value_32 : cuda::write_value_32;
      operations[i].address = address(steps[i].word);
      operations[i].value = steps[i].value;
      operations[i].flags = steps[i].waits ? cuda::wait_until_equal : cuda::write_after_all_before;
    }
    check(driver_.order_by_words(stream, unsigned(now), operations, 0), "cuStreamBatchMemOp");
    steps += now;
    count -= now;
  }
}

void CudaDevice::norm(NormWay way, ncclDataType_t type, int channels, int threads, const NormArguments& arguments,
                      DeviceStream stream) {
  const std::size_t variant = way == NormWay::alone ? 0 : variant_of(arguments.all.ranks);
  start(norms_[std::size_t(way)][std::size_t(type)][variant],
        {.count = unsigned(channels), .threads = unsigned(threads), .may_come_early = true}, &arguments, stream);
}

void CudaDevice::add(ncclDataType_t type, const AddArguments& arguments, DeviceStream stream) {
  const std::uint64_t packs = (arguments.bytes + 15) / 16;
  const std::uint64_t of_a_block = 2 * std::uint64_t(threads_of_an_adder);
  const std::uint64_t blocks = std::min<std::uint64_t>((packs + of_a_block - 1) / of_a_block, most_blocks_of_adders);
  start(adders_[std::size_t(type)][variant_of(arguments.ranks)],
        {.count = unsigned(blocks), .threads = threads_of_an_adder, .may_come_early = false}, &arguments, stream);
}

bool CudaDevice::slim_add(ncclDataType_t type, const AddArguments& a, DeviceStream stream) {
  const CudaFunction kernel = slim_adders_[std::size_t(type)][variant_of(a.ranks)];
  const bool plain = a.op == op_sum || a.op == op_avg;
  if (!kernel || !plain || !whole(a.own) || !whole(a.result) || a.bytes % 16 != 0 || a.bytes > most_slim_bytes) {
    return false;
  }
  start(kernel,
        {.count = slim_blocks(facts_, a.bytes, slim_sums_of_a_product),
         .threads = threads_of_slim,
         .may_come_early = false},
        &a, stream);
  return true;
}

bool CudaDevice::slim_copy(const CopyArguments& a, DeviceStream stream) {
  if (!slim_copy_ || !whole(a.to) || !whole(a.also) || !whole(a.from) || a.bytes % 16 != 0 || a.bytes > most_slim_bytes)
    return false;
  start(slim_copy_,
        {.count = slim_blocks(facts_, a.bytes, slim_copies_of_a_product),
         .threads = threads_of_slim,
         .may_come_early = false},
        &a, stream);
  return true;
}

}  // namespace busbw::gpu
