// Memory and launches of one rank of an accelerated communicator.
#include "library/gpu/communicator.h"

#include <chrono>
#include <cstdio>
#include <thread>

#include "library/common/failure.h"

namespace busbw::gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A quiet NaN in half, bfloat16 and float alike.
constexpr std::uint32_t sentinel_word = 0xFFFAFFFA;

// A peer that has not destroyed the communicator by then does not get to keep our memory.
constexpr seconds patience_with_peers{30};

}  // namespace

ScratchMemory::ScratchMemory(std::shared_ptr<Device> device, int ranks)
    : device_(std::move(device)), layout_(Layout::of(ranks)) {
  scratch_ = static_cast<unsigned char*>(device_->allocate(layout_.bytes));
  device_->fill(scratch_ + layout_.sentinel_start, sentinel_word, layout_.simple_start - layout_.sentinel_start);
  state_ = static_cast<ChannelState*>(device_->allocate(sizeof(ChannelState) * std::size_t(layout_.channels)));
  abort_word_ = device_->allocate_host(sizeof(std::uint32_t));
}

ScratchMemory::~ScratchMemory() {
  device_->release(scratch_);
  device_->release(state_);
  device_->release(abort_word_);
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

Communicator::Communicator(CommunicatorParts parts) : parts_(std::move(parts)), order_(parts_.memory->device()) {
  constant_.rank = parts_.rank;
  constant_.ranks = parts_.ranks;
  constant_.state = parts_.memory->state();
  constant_.abort = static_cast<const std::uint32_t*>(parts_.memory->abort_word().device);
  constant_.layout = parts_.memory->layout();
  for (int rank = 0; rank < parts_.ranks; ++rank) {
    constant_.scratch[rank] = rank == parts_.rank ? parts_.memory->scratch() : (*parts_.peers)[rank];
  }
  parts_.health->set_abort_word(static_cast<std::uint32_t*>(parts_.memory->abort_word().host));
}

// Peers may still write to our memory: it lives on in the watch until they have closed it.
Communicator::~Communicator() {
  parts_.health->set_abort_word(nullptr);
  parts_.peers.reset();
  parts_.seat->leave([memory = std::move(parts_.memory)]() mutable { memory.reset(); }, patience_with_peers);
}

Choice Communicator::decide(const Call& call) const {
  if (call.root < 0 || call.root >= parts_.ranks) return {.reason = "the root is no rank"};
  const Request request{
      .collective = call.collective, .type = call.type, .op = call.op, .count = call.count, .ranks = parts_.ranks};
  Choice choice = parts_.choices->choose(request);
  if (!choice.accelerated) return choice;
  const KernelKind kind{call.collective, choice.algorithm, choice.protocol};
  if (!parts_.memory->device()->has(kind_of(kind.collective, kind.algorithm, kind.protocol), call.type)) {
    return {.reason = std::string("this build has no kernel for ") + name(choice.algorithm) + "/" +
                      name(choice.protocol) + " on this type"};
  }
  if (choice.channels > parts_.channel_limit) {
    // Blocks wait for blocks of peers, so that all must run at once.
    if (channel_range(kind, request, parts_.memory->layout()).least > parts_.channel_limit) {
      return {.reason =
                  text("it needs more than the %d blocks that one of the GPUs runs at once", parts_.channel_limit)};
    }
    choice.channels = parts_.channel_limit;
  }
  return choice;
}

KernelArguments Communicator::arguments(const Call& call) const {
  KernelArguments arguments = constant_;
  arguments.send = call.send;
  arguments.recv = call.recv;
  arguments.count = reduces(call.collective) ? call.count : call.count * type_bytes(call.type);
  arguments.root = call.root;
  arguments.op = ReduceOp(int(call.op));
  return arguments;
}

void Communicator::launch(const Call& call, const Choice& choice) {
  const std::lock_guard lock(guard_);
  parts_.health->check();
  if (parts_.log == LogLevel::choices) log(call, choice);
  Device& device = *parts_.memory->device();
  std::uint64_t capture = 0;
  try {
    capture = order_.before(call.stream);
    device.launch(kind_of(call.collective, choice.algorithm, choice.protocol), call.type, choice.channels,
                  choice.threads, arguments(call), call.stream);
    order_.after(call.stream, capture);
  } catch (const Failure& failure) {
    // While a graph is captured nothing runs, and the ranks stay in step.
    if (capture == 0) {
      parts_.health->poison(failure.code(), failure.what());
      parts_.seat->announce_failure(failure.what());
    }
    throw;
  }
}

std::uint64_t Communicator::before(DeviceStream stream) {
  const std::lock_guard lock(guard_);
  parts_.health->check();
  return order_.before(stream);
}

void Communicator::after(DeviceStream stream, std::uint64_t capture) {
  const std::lock_guard lock(guard_);
  order_.after(stream, capture);
}

void Communicator::abort(const std::string& how) {
  if (parts_.health->poison(ncclRemoteError, how)) parts_.seat->announce_abort();
}

void Communicator::drain() {
  auto give_up = std::chrono::steady_clock::time_point::max();
  for (;;) {
    {
      const std::lock_guard lock(guard_);
      try {
        if (order_.idle()) return;
      } catch (const Failure&) {
        return;  // The GPU's context is lost, and with it everything that ran.
      }
    }
    const auto now = std::chrono::steady_clock::now();
    // Kernels see the abort word within milliseconds.
    if (parts_.health->code() != ncclSuccess && give_up == std::chrono::steady_clock::time_point::max()) {
      give_up = now + seconds(5);
    }
    if (now > give_up) return;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void Communicator::log(const Call& call, const Choice& choice) {
  const std::string line = std::string(name(call.collective)) + " by " + describe(choice);
  if (line == logged_) return;
  logged_ = line;
  std::fprintf(stderr, "busbw: rank %d: %s from a count of %zu %s on\n", parts_.rank, line.c_str(), call.count,
               type_name(call.type));
}

std::string describe(const Choice& choice) {
  if (!choice.accelerated) return "nccl: " + choice.reason;
  return text("%s/%s %dx%d", name(choice.algorithm), name(choice.protocol), choice.channels, choice.threads);
}

}  // namespace busbw::gpu
