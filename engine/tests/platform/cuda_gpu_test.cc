// The GPU as a device: pattern kernels against the host's loops bit by bit, planted errors, streams, graphs and events.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "engine/platform/device.h"
#include "engine/platform/host_pattern.h"

namespace busbw {
namespace {

constexpr int all_kinds = 7;
constexpr std::size_t buffer_bytes = 64 << 10;

class CudaGpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    platform_ = make_cuda_platform(why_not);
    if (platform_ == nullptr) GTEST_SKIP() << "no GPU: " << why_not;
    device_ = platform_->open(0);
    stream_ = device_->make_stream(false);
    memory_ = device_->allocate(buffer_bytes);
  }
  void TearDown() override {
    if (device_ != nullptr) device_->release(memory_);
  }

  void wait() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!stream_->finished()) ASSERT_LT(std::chrono::steady_clock::now(), limit);
  }

  // The engine never moves bytes between host and GPU, so its platform has no calls for that.
  template <typename Copy>
  static Copy* driver_call(const char* symbol) {
    return reinterpret_cast<Copy*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), symbol));
  }
  std::vector<unsigned char> read(const void* memory, std::size_t bytes) {
    wait();
    std::vector<unsigned char> host(bytes);
    auto* copy = driver_call<int(void*, unsigned long long, std::size_t)>("cuMemcpyDtoH_v2");
    EXPECT_EQ(copy(host.data(), reinterpret_cast<unsigned long long>(memory), bytes), 0);
    return host;
  }
  void write(void* memory, const std::vector<unsigned char>& host) {
    auto* copy = driver_call<int(unsigned long long, const void*, std::size_t)>("cuMemcpyHtoD_v2");
    EXPECT_EQ(copy(reinterpret_cast<unsigned long long>(memory), host.data(), host.size()), 0);
  }

  void flip(void* memory, std::size_t bytes) {
    std::vector<unsigned char> host = read(memory, bytes);
    for (unsigned char& byte : host) byte ^= 0xff;
    write(memory, host);
  }

  void expect_same_as_host(const Pattern& pattern, const std::vector<Segment>& segments) {
    std::vector<unsigned char> expected(buffer_bytes, 0);
    fill_on_host(expected.data(), pattern, segments);
    device_->clear(memory_, buffer_bytes, *stream_);
    device_->fill(memory_, pattern, segments, *stream_);
    EXPECT_EQ(read(memory_, buffer_bytes), expected)
        << name(pattern.type) << ", kind " << static_cast<int>(pattern.kind) << ", " << pattern.ranks << " ranks";
  }

  std::unique_ptr<Platform> platform_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  void* memory_ = nullptr;
};

TEST_F(CudaGpu, FillsEveryTypeAndKindAsTheHostDoesBitForBit) {
  for (const DataType type : all_data_types)
    for (int kind = 0; kind < all_kinds; ++kind)
      for (const int ranks : {1, 2, 3, 4, 8, 72, 300}) {
        const Pattern pattern{type, static_cast<PatternKind>(kind), ranks, 99};
        // Odd starts and lengths, so that heads and tails around the 16-byte stores are written as well.
        std::vector<Segment> segments = {
            {.offset = 3, .count = 1021, .rank = 0, .source_offset = 5},
            {.offset = 1100, .count = 2, .rank = ranks - 1, .source_offset = 77},
        };
        if (pattern.kind != PatternKind::copy)
          segments.push_back(
              {.offset = 1200, .count = 1999, .source = Segment::Source::reduction, .rank = 0, .source_offset = 1});
        expect_same_as_host(pattern, segments);
      }
}

TEST_F(CudaGpu, FillsAcrossTheFourBillionthElement) {
  const std::size_t boundary = std::size_t{1} << 32;
  expect_same_as_host({DataType::float32, PatternKind::sum, 4, 1},
                      {{.offset = 1, .count = 500, .rank = 2, .source_offset = boundary - 123},
                       {.offset = 600,
                        .count = 500,
                        .source = Segment::Source::reduction,
                        .rank = 0,
                        .source_offset = 3 * boundary - 50}});
}

TEST_F(CudaGpu, FillsMoreSegmentsThanOneLaunchTakes) {
  std::vector<Segment> segments;
  for (int i = 0; i < 300; ++i)
    segments.push_back({.offset = static_cast<std::size_t>(7 * i), .count = 5, .rank = i, .source_offset = 11});
  expect_same_as_host({DataType::uint64, PatternKind::copy, 300, 5}, segments);
}

TEST_F(CudaGpu, CountsPlantedErrorsExactlyAtAnyAlignment) {
  for (const DataType type : all_data_types) {
    const std::size_t width = element_size(type);
    const std::size_t count = buffer_bytes / 2 / width - 16;
    const Pattern pattern{type, PatternKind::sum, 4, 3};
    auto* data = static_cast<unsigned char*>(memory_);
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, std::size_t{5}}) {
      unsigned char* expected = data + buffer_bytes / 2 + shift * width;
      const std::vector<Segment> whole = {{.count = count, .source = Segment::Source::reduction}};
      device_->fill(data, pattern, whole, *stream_);
      device_->fill(expected, pattern, whole, *stream_);
      EXPECT_EQ(device_->count_wrong(data, expected, count, pattern, *stream_), 0U)
          << name(type) << ", shift " << shift;
      // The first element, the last and one in between get all bits flipped.
      for (const std::size_t at : {std::size_t{0}, count / 3, count - 1}) flip(data + at * width, width);
      EXPECT_EQ(device_->count_wrong(data, expected, count, pattern, *stream_), 3U)
          << name(type) << ", shift " << shift;
    }
  }
}

TEST_F(CudaGpu, ReplaysACapturedGraphAndTimesIt) {
  const Pattern pattern{DataType::float32, PatternKind::copy, 1, 8};
  const std::vector<Segment> whole = {{.count = buffer_bytes / 4}};
  // Once before: the driver loads a kernel at its first launch, which must not fall into a capture.
  device_->fill(memory_, pattern, whole, *stream_);
  stream_->begin_capture();
  device_->fill(memory_, pattern, whole, *stream_);
  const std::unique_ptr<Graph> graph = stream_->end_capture();
  graph->instantiate();
  device_->clear(memory_, buffer_bytes, *stream_);
  const std::unique_ptr<Events> events = stream_->make_events(2);
  events->record(0);
  graph->launch();
  events->record(1);
  std::vector<unsigned char> expected(buffer_bytes);
  fill_on_host(expected.data(), pattern, whole);
  EXPECT_EQ(read(memory_, buffer_bytes), expected);
  EXPECT_GT(events->between(0, 1).count(), 0.0);
}

TEST_F(CudaGpu, CapturesOnSeveralStreamsAtOnceInOneThread) {
  const Pattern pattern{DataType::float32, PatternKind::copy, 1, 8};
  const std::vector<Segment> whole = {{.count = buffer_bytes / 4}};
  device_->fill(memory_, pattern, whole, *stream_);
  const std::unique_ptr<Stream> other = device_->make_stream(false);
  stream_->begin_capture();
  other->begin_capture();
  device_->fill(memory_, pattern, whole, *stream_);
  device_->fill(memory_, pattern, whole, *other);
  const std::unique_ptr<Graph> first = stream_->end_capture();
  const std::unique_ptr<Graph> second = other->end_capture();
  for (Graph* graph : {first.get(), second.get()}) {
    graph->instantiate();
    graph->launch();
  }
  std::vector<unsigned char> expected(buffer_bytes);
  fill_on_host(expected.data(), pattern, whole);
  EXPECT_EQ(read(memory_, buffer_bytes), expected);
  while (!other->finished()) {
  }
}

TEST_F(CudaGpu, RefusesToCaptureTheNullStreamWithASentence) {
  const std::unique_ptr<Stream> null_stream = device_->make_stream(true);
  EXPECT_EQ(null_stream->handle(), nullptr);
  EXPECT_THROW(null_stream->begin_capture(), Error);
}

TEST_F(CudaGpu, NamesItself) {
  EXPECT_EQ(device_->info().kind, DeviceInfo::Kind::gpu);
  EXPECT_GE(device_->info().capability, 70);
  EXPECT_EQ(device_->info().bus_id.size(), 10U) << device_->info().bus_id;
  EXPECT_GT(device_->memory_used().count, buffer_bytes);
  EXPECT_LT(device_->memory_used().count, device_->info().total_memory.count);
}

TEST_F(CudaGpu, SaysWhichGpuCannotBeOpened) { EXPECT_THROW(platform_->open(platform_->device_count()), Error); }

TEST_F(CudaGpu, TellsHowMuchWasAskedWhenMemoryRunsOut) {
  try {
    device_->allocate(device_->info().total_memory.count * 2);
    FAIL() << "more than the whole memory was given";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::cuda);
    EXPECT_NE(std::string(error.what()).find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace busbw
