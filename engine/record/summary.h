// What a whole run comes to, as the table, the record and the -J file all state it.
#pragma once

#include <optional>

#include "engine/core/result.h"

namespace busbw {

// nccl-tests fails a run whose average is below this part of NCCL_TESTS_MIN_BW.
inline constexpr double required_part = 0.9;

// Mean of busbw over all rows and both placements; nothing where no row was measured.
inline std::optional<double> average_busbw(const RunSummary& summary) {
  if (summary.busbw_count == 0) return std::nullopt;
  return summary.busbw_sum / static_cast<double>(summary.busbw_count);
}

// Nothing where no bandwidth was required.
inline std::optional<bool> is_fast_enough(const RunSummary& summary) {
  if (!summary.required_busbw) return std::nullopt;
  return average_busbw(summary).value_or(0) >= required_part * *summary.required_busbw;
}

}  // namespace busbw
