// Last errors, and the check of a communicator's handle.
#include "library/cpu/handle.h"

namespace busbw::cpu {
namespace {

struct ProcessError {
  std::mutex guard;
  std::string sentence;
};

ProcessError& process_error() {
  static ProcessError instance;
  return instance;
}

}  // namespace

ncclResult_t remember(ncclComm_t comm, ncclResult_t code, const std::string& sentence) {
  if (comm) {
    const std::lock_guard lock(comm->guard);
    comm->last_error = sentence;
  }
  const std::lock_guard lock(process_error().guard);
  process_error().sentence = sentence;
  return code;
}

const char* last_error(ncclComm_t comm) {
  // A copy of this thread's own: another thread may replace the original at any time.
  static thread_local std::string copy;
  if (comm) {
    const std::lock_guard lock(comm->guard);
    copy = comm->last_error;
  } else {
    const std::lock_guard lock(process_error().guard);
    copy = process_error().sentence;
  }
  return copy.c_str();
}

ncclComm& checked(ncclComm_t comm) {
  if (!comm) throw Failure(ncclInvalidArgument, "The communicator is NULL.");
  if (comm->magic != ncclComm::live) {
    throw Failure(ncclInvalidArgument, "The communicator was destroyed, or is not one of busbw's CPU library.");
  }
  return *comm;
}

}  // namespace busbw::cpu
