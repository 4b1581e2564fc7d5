// The version of busbw that this engine belongs to.
#pragma once

namespace busbw {

inline constexpr const char* version = BUSBW_VERSION;

}  // namespace busbw
