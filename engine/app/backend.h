// Which library is measured, and on which kind of device its buffers lie.
#pragma once

#include <memory>
#include <string>

#include "engine/library_api/library.h"
#include "engine/platform/device.h"

namespace busbw {

struct Backend {
  std::unique_ptr<Platform> platform;
  std::unique_ptr<Library> library;
  std::string why_no_gpu;  // auto fell back to the processors for this reason
};

// `choice` is the value of --library: a path, cpu, busbw, auto, system, torch or wheel. Throws Error with what was
// looked for and where when nothing can be had.
Backend open_backend(const std::string& choice);

}  // namespace busbw
