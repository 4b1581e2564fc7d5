// The functions of the CUDA driver that the recorder calls, where the program has loaded one; never loaded for us.
// Prototypes and numbers are those of the driver's documented ABI.
#pragma once

#include <cstddef>
#include <cstdint>

namespace busbw::record {

using CudaEvent = struct CUevent_st*;
using CudaContext = struct CUctx_st*;

struct Cuda {
#define BUSBW_RECORDER_DRIVER(X)                                                                                \
  X(is_capturing, cuStreamIsCapturing, (const void* stream, int* status))                                       \
  X(capture_info, cuStreamGetCaptureInfo_v2,                                                                    \
    (const void* stream, int* status, std::uint64_t* id, void** graph, void* dependencies, std::size_t* count)) \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, (int* mode))                                               \
  X(context, cuCtxGetCurrent, (CudaContext * context))                                                          \
  X(set_context, cuCtxSetCurrent, (CudaContext context))                                                        \
  X(device, cuCtxGetDevice, (int* device))                                                                      \
  X(context_of, cuStreamGetCtx, (const void* stream, CudaContext* context))                                     \
  X(event_create, cuEventCreate, (CudaEvent * event, unsigned flags))                                           \
  X(event_record, cuEventRecord, (CudaEvent event, const void* stream))                                         \
  X(event_query, cuEventQuery, (CudaEvent event))                                                               \
  X(elapsed, cuEventElapsedTime, (float* milliseconds, CudaEvent from, CudaEvent to))

#define BUSBW_MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  BUSBW_RECORDER_DRIVER(BUSBW_MEMBER)
#undef BUSBW_MEMBER
  // Whether the functions for times are there.
  bool can_time() const {
    return capture_mode && context && device && context_of && event_create && event_record && event_query && elapsed;
  }
  // And for marks.
  bool can_mark() const {
    return capture_mode && context && set_context && event_create && event_record && event_query;
  }
};

// Looks whether the program has a driver by now: whenever it makes a communicator, which nobody does without one.
void find_cuda();
// Null where none was found.
const Cuda* cuda();

// 0 where a stream is not being captured, 1 where it is, 2 where that has failed.
int capture_status(const void* stream);
// Whether a stream is being captured into a graph; `graph` is then the graph where the driver tells it, else null.
bool is_captured(const void* stream, void** graph);

// Calls that a capture of another thread would forbid are aside from it while this lives.
class AsideFromCaptures {
 public:
  AsideFromCaptures() { exchange(); }
  ~AsideFromCaptures() { exchange(); }
  AsideFromCaptures(const AsideFromCaptures&) = delete;
  AsideFromCaptures& operator=(const AsideFromCaptures&) = delete;

 private:
  void exchange() {
    if (const Cuda* driver = cuda(); driver && driver->capture_mode) driver->capture_mode(&mode_);
  }
  int mode_ = 2;  // relaxed
};

}  // namespace busbw::record
