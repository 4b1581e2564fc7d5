// Bounds of rounding errors, after Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 and 4: a sum of n
// numbers in any order is off by at most ((1 + u)^(n-1) - 1) times the sum of their magnitudes.
#include "library/gpu/check/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "busbw/float_formats.h"
#include "library/common/failure.h"
#include "library/gpu/choose/choice_table.h"

namespace busbw::gpu {
namespace {

struct Format {
  double unit;      // the relative error of one rounding
  double largest;   // finite
  double smallest;  // above zero
  bool saturates;   // what is too large becomes the largest
};

Format format_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
      return {0x1p-11, 65504, 0x1p-24, false};
    case ncclBfloat16:
      return {0x1p-8, 0x1.fep127, 0x1p-133, false};
    case ncclFloat8e4m3:
      return {0x1p-4, 448, 0x1p-9, true};
    case ncclFloat8e5m2:
      return {0x1p-3, 57344, 0x1p-16, true};
    case ncclFloat64:
      return {0x1p-53, std::numeric_limits<double>::max(), 0x1p-1074, false};
    default:
      return {0x1p-24, 0x1.fffffep127, 0x1p-149, false};
  }
}

bool floating(ncclDataType_t type) { return type >= ncclFloat16 && type <= ncclFloat8e5m2; }

template <class T>
T read(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double as_double(ncclDataType_t type, const void* at) {
  switch (type) {
    case ncclFloat16:
      return decode_float<half_format>(read<std::uint16_t>(at));
    case ncclBfloat16:
      return decode_float<bfloat16_format>(read<std::uint16_t>(at));
    case ncclFloat8e4m3:
      return decode_float<f8e4m3_format>(read<std::uint8_t>(at));
    case ncclFloat8e5m2:
      return decode_float<f8e5m2_format>(read<std::uint8_t>(at));
    case ncclFloat64:
      return read<double>(at);
    default:
      return read<float>(at);
  }
}

// What is put together, and how far two orders of doing so may be apart.
struct Bound {
  double reach;  // no intermediate value is larger
  double tolerance;
};

Bound bound_of(ncclRedOp_t op, int ranks, const Format& format, double a, double b, double largest_input) {
  const double n = ranks;
  const auto grown = [&](int roundings) { return std::pow(1 + format.unit, roundings) - 1; };
  if (op == ncclProd) {
    const double reach = std::pow(std::max(1.0, largest_input), n);
    const double error = grown(ranks - 1);
    const double product = error < 1 ? std::max(std::fabs(a), std::fabs(b)) / (1 - error) : reach;
    // A partial product that is too small for the type is off by that type's smallest value.
    return {reach, 2 * error * product + n * format.smallest * reach};
  }
  const double magnitudes = n * largest_input;
  // An average may round 1/n, each share of it and the sum, or the sum and its quotient.
  if (op == ncclAvg) return {magnitudes, 2 * grown(ranks + 1) * largest_input + n * format.smallest};
  return {magnitudes, 2 * grown(ranks - 1) * magnitudes};
}

}  // namespace

bool rounds(const Call& call) {
  return reduces(call.collective) && floating(call.type) &&
         (call.op == ncclSum || call.op == ncclProd || call.op == ncclAvg);
}

bool agrees(const Call& call, int ranks, const Compared& values) {
  if (std::memcmp(values.ours, values.theirs, type_bytes(call.type)) == 0) return true;
  if (!reduces(call.collective) || !floating(call.type)) return false;
  const double a = as_double(call.type, values.ours);
  const double b = as_double(call.type, values.theirs);
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  if (!rounds(call)) return false;
  const double most = as_double(call.type, values.most);
  const double least = as_double(call.type, values.least);
  // A NaN or an infinity among the inputs: a sum is one of the two, in any order.
  if (!std::isfinite(most) || !std::isfinite(least)) return !std::isfinite(a) && !std::isfinite(b);
  const Format format = format_of(call.type);
  const Bound bound = bound_of(call.op, ranks, format, a, b, std::max(std::fabs(most), std::fabs(least)));
  // One order may leave the type's range where another does not.
  const bool leaves_range = bound.reach > format.largest;
  if (leaves_range && (format.saturates || !std::isfinite(a) || !std::isfinite(b))) return true;
  return std::fabs(a - b) <= bound.tolerance;
}

std::string value_text(ncclDataType_t type, const void* at) {
  if (type == ncclFloat64) return text("%.17g", read<double>(at));
  if (floating(type)) return text("%.9g", as_double(type, at));
  switch (type) {
    case ncclUint8:
      return text("%d", int(read<std::uint8_t>(at)));
    case ncclInt32:
      return text("%d", int(read<std::int32_t>(at)));
    case ncclUint32:
      return text("%u", unsigned(read<std::uint32_t>(at)));
    case ncclInt64:
      return text("%lld", static_cast<long long>(read<std::int64_t>(at)));
    case ncclUint64:
      return text("%llu", static_cast<unsigned long long>(read<std::uint64_t>(at)));
    default:
      return text("%d", int(read<std::int8_t>(at)));
  }
}

}  // namespace busbw::gpu
