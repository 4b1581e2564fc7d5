// Prints nccl-tests' table. Widths and words are its interface: each has readers, so each is as it was.
#include "engine/app/table.h"

#include <algorithm>
#include <cerrno>
#include <initializer_list>

#include "engine/core/error.h"
#include "engine/core/visible.h"
#include "engine/record/summary.h"
#include "engine/record/time.h"

namespace busbw {
namespace {

constexpr int api_level = 22809;  // of busbw/nccl_abi.h, as ncclGetVersion codes it
constexpr int time_width = 7;
constexpr int bandwidth_width = 6;
constexpr int statistics_width = 7;
// One short of a number's column, as nccl-tests prints it.
constexpr const char* unchecked = "    N/A";

std::string blocking_line(Blocking blocking) {
  switch (blocking) {
    case Blocking::none:
      return {};
    case Blocking::wait_and_barrier:
      return "# Blocking Enabled: wait and barrier after each inner iteration (-m) ";
    case Blocking::wait:
      return "# Blocking Enabled: wait after each inner iteration (-m), no barrier ";
    case Blocking::outer:
      return "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier ";
  }
  return {};
}

std::string rank_line(const RankDescription& rank) {
  const std::string host = rank.host.substr(0, rank.host.find('.'));
  return format("#  Rank %2d Group %2d Pid %6ld on %10s device %2d [%s] %s", rank.rank, rank.group, rank.pid,
                host.c_str(), rank.device, rank.bus_id.c_str(), rank.device_name.c_str());
}

std::string interval_text(const Interval& interval) {
  return format("%.0f %% interval of the median %.2f to %.2f us over %d batches%s", interval.level * 100, interval.low,
                interval.high, interval.batches, interval.reached ? "" : ", not as narrow as asked");
}

std::string phases_text(const RunSummary& summary) {
  std::string text;
  for (const auto& [name, spent] : summary.phases)
    text += (text.empty() ? "" : ", ") + name + format(" %.3f s", spent.count());
  return text;
}

// NCCL's version is its API level; other libraries have a version of their own in their name.
std::string library_text(const LibraryDescription& library) {
  const bool is_nccl = library.name == "NCCL";
  return library.name + (is_nccl ? " " + library.version : ", NCCL API " + library.version) + ", " + library.path;
}

// One line: a reader must never take part of a sentence for a row.
std::string in_one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (c == '\n' || c == '\r') c = ' ';
  return line;
}

// One of the two lines of titles: what stands over a placement, repeated for both.
std::string titles(const char* size, const char* count, const char* type, const char* op, const char* root,
                   const std::string& placement, const std::string& timestamp) {
  constexpr int timestamp_width = 19;
  const std::string left = format("# %10s  %12s  %8s  %6s  %6s", size, count, type, op, root);
  return left + placement + placement + (timestamp.empty() ? " " : format(" %*s", timestamp_width, timestamp.c_str()));
}

}  // namespace

std::string fixed_width(double value, int width) {
  // Rounding may need one digit more than truncation, so ask the printed text rather than the magnitude.
  for (int decimals = 2; decimals >= 0; --decimals) {
    const std::string text = format("%*.*f", width, decimals, value);
    if (text.size() <= static_cast<std::size_t>(width)) return text;
  }
  constexpr int without_fraction = 6;
  return format("%*.*e", width, width > without_fraction ? 1 : 0, value);
}

std::string readable(Bytes bytes) {
  constexpr double kilo = 1024;
  double amount = static_cast<double>(bytes.count);
  const char* unit = "B";
  for (const char* larger : {"KB", "MB", "GB"}) {
    if (amount < kilo) break;
    amount /= kilo;
    unit = larger;
  }
  return format("%.*f %s", amount < 10 ? 2 : amount < 100 ? 1 : 0, amount, unit);
}

void Table::line(const std::string& text) {
  const bool written = std::fprintf(out_, "%s\n", visible(text).c_str()) >= 0 && std::fflush(out_) == 0;
  if (!written && problem_ == 0) problem_ = errno != 0 ? errno : EIO;
}

void Table::header(const RunDescription& run, const OutputPaths& paths) {
  if (!paths.json.empty()) line("# Writing JSON output to " + paths.json);
  line(format("# nccl-tests version 2.19.6 nccl-headers=%d nccl-library=%d", api_level, run.library.version_code));
  line("# Collective test starting: " + plan_.program);
  options_line();
  mode_lines();
  line("#");
  line("# Using devices");
  for (const RankDescription& rank : run.ranks) line(rank_line(rank));
  line(in_one_line("# Library: " + library_text(run.library)));
  if (!paths.record.empty()) line("# Record: " + paths.record);
  if (!run.memory_note.empty()) {
    std::fputs(run.memory_note.c_str(), out_);
    if (run.memory_note.back() != '\n') std::fputc('\n', out_);
  }
  column_titles();
}

void Table::options_line() {
  const bool multiplies = plan_.sizes.factor > 1;
  const std::string step =
      multiplies ? format("%d(factor)", plan_.sizes.factor) : format("%zu(bytes)", plan_.sizes.step.count);
  line(
      format("# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %s warmup iters: %d iters: %d agg iters: %d "
             "validation: %d graph: %d unalign: %zu",
             plan_.threads, plan_.devices, plan_.sizes.first.count, plan_.sizes.last.count, step.c_str(),
             plan_.warmup_iterations, plan_.iterations, plan_.aggregated, plan_.checks, plan_.graph_launches,
             plan_.unaligned_elements));
}

void Table::mode_lines() {
  const std::string blocking = blocking_line(plan_.blocking);
  if (!blocking.empty()) line(blocking);
  if (plan_.per_iteration) {
    const std::string skipped =
        plan_.per_iteration_skip > 0 ? format("; summary skips first %d iterations", plan_.per_iteration_skip) : "";
    line("# Per-Iteration Report: CUDA event timing; i_* uses max over process rows" + skipped + " ");
  }
  if (plan_.parallel_init) line("# Parallel Init Enabled: threads call into NcclInitRank concurrently ");
}

void Table::column_titles() {
  const bool statistics = plan_.per_iteration;
  const auto placement = [&](const char* time, const char* algbw, const char* busbw, const char* wrong,
                             std::initializer_list<const char*> extra) {
    std::string text = format("  %*s  %*s  %*s  %*s", time_width, time, bandwidth_width, algbw, bandwidth_width, busbw,
                              bandwidth_width, wrong);
    for (const char* title : extra)
      if (statistics) text += format("  %*s", statistics_width, title);
    return text;
  };
  line("#");
  // The gaps between these words are nccl-tests' own.
  const std::string left = format("# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
  line(left + (statistics
                   ? std::string(14, ' ') + "out-of-place (+ per-iteration)" + std::string(32, ' ') +
                         "in-place (+ per-iteration)"
                   : std::string(11, ' ') + "out-of-place" + std::string(23, ' ') + "in-place" + std::string(10, ' ')));
  const bool stamped = plan_.report_timestamps;
  line(titles("size", "count", "type", "redop", "root",
              placement(plan_.report_cpu_time ? "cputime" : "time", "algbw", "busbw", "#wrong",
                        {"i_min", "i_max", "i_p99", "i_cv%"}),
              stamped ? "timestamp" : ""));
  line(titles("(B)", "(elements)", "", "", "",
              placement("(us)", "(GB/s)", "(GB/s)", "", {"(us)", "(us)", "(us)", "(%)"}),
              stamped ? "%Y-%m-%d %H:%M:%S" : ""));
}

void Table::begin_row(const Case& row) {
  remarks_.clear();
  cells_ = 0;
  std::fprintf(out_, "%12zu  %12zu  %8s  %6s  %6d", row.bytes.count, row.count, std::string(name(row.type)).c_str(),
               row.op_column.c_str(), row.root);
}

void Table::cell(const CaseResult& result, bool last) {
  const std::string placement = cells_++ == 0 ? "out of place" : "in place";
  if (result.outcome != Outcome::measured) {
    std::fprintf(out_, "  %*s  %*s  %*s%s", time_width, "N/A", bandwidth_width, "N/A", bandwidth_width, "N/A",
                 unchecked);
    remarks_.push_back(placement + ": " + result.reason);
  } else {
    const double time = plan_.report_cpu_time ? result.cpu_time_us : result.time_us;
    std::fprintf(out_, "  %s  %s  %s", fixed_width(time, time_width).c_str(),
                 fixed_width(result.algbw, bandwidth_width).c_str(),
                 fixed_width(result.busbw, bandwidth_width).c_str());
    if (result.wrong)
      std::fprintf(out_, "  %*g", bandwidth_width, static_cast<double>(*result.wrong));
    else
      std::fputs(unchecked, out_);
  }
  statistics(result);
  if (!result.algorithm.empty() && (!last || result.algorithm != algorithm_))
    remarks_.push_back((last ? "in place: algorithm " : "algorithm ") + result.algorithm);
  algorithm_ = result.algorithm;
  if (result.interval) remarks_.push_back(placement + ": " + interval_text(*result.interval));
  // Under --precision the batches of both placements alternate between two readings.
  if (result.context) context(plan_.precision ? "both placements" : placement, *result.context);
  if (last && plan_.report_timestamps) {
    const std::string when = result.timestamp.empty() ? local_time() : local_time(result.timestamp);
    std::fprintf(out_, "%21s", when.c_str());
  }
}

void Table::context(const std::string& placement, const CaseContext& context) {
  if (plan_.show_context) remarks_.push_back(placement + ": " + in_words(context.ranks));
  for (const std::string& warning : context.warnings)
    if (std::find(warned_.begin(), warned_.end(), warning) == warned_.end())
      remarks_.push_back(placement + ": warning: " + warning);
  warned_ = context.warnings;
}

void Table::statistics(const CaseResult& result) {
  if (!plan_.per_iteration) return;
  if (!result.per_iteration) {
    for (int column = 0; column < 4; ++column) std::fprintf(out_, "  %*s", statistics_width, "N/A");
    return;
  }
  const IterationStatistics& s = *result.per_iteration;
  for (const double value : {s.min, s.max, s.p99, s.cv_percent})
    std::fprintf(out_, "  %s", fixed_width(value, statistics_width).c_str());
}

void Table::end_row() {
  line("");
  for (const std::string& remark : remarks_) skip_line(remark);
  remarks_.clear();
}

void Table::skip_line(std::string_view sentence) { line("# " + in_one_line(sentence)); }

void Table::footer(const RunSummary& summary) {
  line(format("# Out of bounds values : %zu %s", summary.out_of_bounds, summary.out_of_bounds > 0 ? "FAILED" : "OK"));
  const std::optional<double> average = average_busbw(summary);
  const std::optional<bool> enough = is_fast_enough(summary);
  line(format("# Avg bus bandwidth    : %s %s", average ? format("%g", *average).c_str() : "N/A",
              !enough   ? ""
              : *enough ? "OK"
                        : "FAILED"));
  line("#");
  line("# Collective test concluded: " + plan_.program);
  if (plan_.report_memory) {
    const Bytes total{summary.memory_initialization.count + summary.memory_user.count +
                      summary.memory_collective.count};
    line("# GPU memory usage     : Initialization " + readable(summary.memory_initialization) + " | User-Allocated " +
         readable(summary.memory_user) + " | Collective " + readable(summary.memory_collective) + " | Total  " +
         readable(total));
  }
  if (summary.cases_with_warnings > 0)
    line(format("# Warning: GPUs ran throttled or were shared in %zu of %zu cases; the record names them",
                summary.cases_with_warnings, summary.cases));
  if (plan_.show_context) line("# Time spent           : " + phases_text(summary));
  line("#");
  line(summary.last_error.empty() ? "" : in_one_line("# error: " + summary.last_error));
}

}  // namespace busbw
