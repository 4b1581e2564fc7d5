// A GPU through the CUDA driver, in the primary context that CUDA's runtime, and so NCCL, uses.
#pragma once

#include <array>
#include <mutex>
#include <vector>

#include "library/gpu/cuda/device.h"
#include "library/gpu/cuda/driver.h"

namespace busbw::gpu {

class CudaDevice : public Device {
 public:
  CudaDevice(const Driver& driver, int ordinal);

  // False once the program has reset the GPU (cudaDeviceReset): streams and kernels of the old context are gone, and
  // another object must be made. Memory and events of that time are never touched again.
  bool lives() const;
  const DeviceFacts& facts() const override { return facts_; }
  std::string why_not() const override { return why_not_; }
  void* allocate(std::size_t bytes) override;
  void fill(void* memory, std::uint32_t word, std::size_t bytes) override;
  void release(void* memory) noexcept override;
  HostMemory allocate_host(std::size_t bytes) override;
  void release(const HostMemory& memory) noexcept override;
  MemoryHandle share(void* memory) override;
  void* open(const MemoryHandle& handle) override;
  void close(void* opened) noexcept override;
  void reach(int peer_ordinal) override;
  RangeHandle share_range(const void* memory, std::size_t bytes, Descriptor& descriptor) override;
  void* open_range(const RangeHandle& range, const Descriptor& descriptor) override;
  void close_range(const RangeHandle& range, void* opened) noexcept override;
  Chunks retain_chunks(const void* memory, std::size_t bytes, std::size_t enough) override;
  bool are_there(const Chunks& chunks, const void* memory, std::size_t bytes) override;
  std::vector<Descriptor> share(const Chunks& chunks) override;
  void release(const Chunks& chunks) noexcept override;
  void* open_chunks(std::uint64_t each, const std::vector<Descriptor>& descriptors) override;
  void check_reach(const void* memory) override;
  DeviceStream create_stream() override;
  void destroy(DeviceStream stream) noexcept override;
  void copy_in(void* to, const void* from_host, std::size_t bytes, DeviceStream stream) override;
  void copy_out(void* to_host, const void* from, std::size_t bytes, DeviceStream stream) override;
  bool done(DeviceStream stream) override;
  DeviceEvent create_event() override;
  void destroy(DeviceEvent event) noexcept override;
  void record(DeviceEvent event, DeviceStream stream) override;
  void wait(DeviceStream stream, DeviceEvent event) override;
  bool done(DeviceEvent event) override;
  DeviceEvent create_timer() override;
  double milliseconds(DeviceEvent from, DeviceEvent to) override;
  void retire(DeviceEvent event) noexcept override;
  std::uint64_t identity(DeviceStream stream) override;
  bool is_urgent(DeviceStream stream) override;
  std::uint64_t capture(DeviceStream stream) override;
  std::vector<void*> ends(DeviceStream stream) override;
  bool comes_behind(DeviceStream stream, const std::vector<void*>& nodes) override;
  void wait_outside(DeviceStream stream, DeviceEvent event) override;
  void record_outside(OutsideRecord& record, DeviceEvent event, DeviceStream stream) override;
  void keep(DeviceStream stream, std::shared_ptr<void> what) override;
  bool can_keep_graphs() const override { return driver_.lacks_for_graphs == nullptr; }
  std::uint64_t allocation_of(const void* memory) override;
  DeviceGraph record_graph(DeviceStream stream, const std::function<void()>& work) override;
  void launch(DeviceGraph graph, DeviceStream stream) override;
  void destroy(DeviceGraph graph) noexcept override;
  bool has(int kind, ncclDataType_t type) const override;
  void launch(int kind, ncclDataType_t type, int channels, int threads, const KernelArguments& arguments,
              DeviceStream stream) override;
  void meet(const KernelArguments& arguments, DeviceStream stream) override;
  bool can_order_by_words() const override { return driver_.lacks_for_words == nullptr; }
  void order_by_words(const WordStep* steps, std::size_t count, DeviceStream stream) override;
  bool has_norm(ncclDataType_t type) const override { return norms_[2][std::size_t(type)][0] != nullptr; }
  void norm(NormWay way, ncclDataType_t type, int channels, int threads, const NormArguments& arguments,
            DeviceStream stream) override;
  void add(ncclDataType_t type, const AddArguments& arguments, DeviceStream stream) override;
  std::size_t free_memory() override;
  bool slim_add(ncclDataType_t type, const AddArguments& arguments, DeviceStream stream) override;
  bool has_slim_copy() const override { return slim_copy_ != nullptr; }
  bool slim_copy(const CopyArguments& arguments, DeviceStream stream) override;
  void call(DeviceStream stream, void (*function)(void*), void* data) override;
  void copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) override;

 private:
  class Current;
  class Aside;

  // What `stream` is captured into: the graph, and the nodes that what comes next is behind.
  struct Captured {
    void* graph = nullptr;
    std::vector<void*> behind;
  };
  // The blocks of a kernel, and whether they may be brought to the GPU while the kernel before it in the stream ends:
  // such a kernel waits for that one itself (kernels/machine.h). A large one never is, as its blocks would take the
  // place of another stream's kernels.
  struct Blocks {
    unsigned count;
    unsigned threads;
    bool may_come_early;
  };
  Captured captured(DeviceStream stream) const;
  std::vector<void*> behind_of(void* node) const;
  unsigned long long id_of(CudaContext context) const;
  void learn_facts(int device);
  void load_kernels();
  CudaFunction find_kernel(const std::vector<CudaModule>& modules, const std::string& name, int threads) const;
  void start(CudaFunction kernel, const Blocks& blocks, const void* arguments, DeviceStream stream);
  void check(CudaResult result, const char* what) const;
  void check_range_functions() const;

  const Driver& driver_;
  int device_ = 0;
  CudaContext context_ = nullptr;
  unsigned long long context_id_ = 0;  // no two contexts of a process have the same; 0 where the driver does not say
  // Filling and the like, apart from what the program does.
  ncclStream_t stream_ = nullptr;
  DeviceFacts facts_;
  std::string why_not_;
  // [kind][type][variant]: for 2, up to 4 and up to 8 ranks.
  std::array<std::array<std::array<CudaFunction, 3>, ncclNumTypes>, std::size(kernel_kinds)> kernels_{};
  CudaFunction meet_ = nullptr;
  std::mutex retired_guard_;
  std::vector<DeviceEvent> retired_;
  std::array<std::array<CudaFunction, 3>, ncclNumTypes> adders_{}, slim_adders_{};  // [type][variant]
  CudaFunction slim_copy_ = nullptr;
  // [way][type][variant]; alone has one variant.
  std::array<std::array<std::array<CudaFunction, 3>, ncclNumTypes>, 3> norms_{};
  bool overlaps_ = false;  // a kernel may come to the GPU before the one before it has ended
};

}  // namespace busbw::gpu
