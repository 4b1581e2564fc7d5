// The table against the lines that nccl-tests prints: every word and width has a reader.
#include "engine/app/table.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <functional>
#include <sstream>

namespace busbw {
namespace {

// What the table printed.
std::string printed(const Plan& plan, const std::function<void(Table&)>& print) {
  char* text = nullptr;
  std::size_t length = 0;
  std::FILE* stream = open_memstream(&text, &length);
  const auto collective = make_collective(plan.collective);
  Table table(stream, plan, *collective);
  print(table);
  std::fclose(stream);
  const std::string result(text, length);
  free(text);
  return result;
}

Plan all_reduce_plan() {
  Plan plan;
  plan.program = "all_reduce_perf";
  plan.collective = "all_reduce";
  plan.devices = 8;
  plan.sizes = {.first = {8}, .last = {134217728}, .step = {1048576}, .factor = 2};
  return plan;
}

RunDescription one_gpu() {
  RunDescription run;
  run.library.name = "NCCL";
  run.library.version = "2.28.9";
  run.library.version_code = 22809;
  run.library.path = "/usr/lib/libnccl.so.2";
  run.ranks = {{.rank = 0,
                .group = 0,
                .process = 0,
                .thread = 0,
                .pid = 123456,
                .host = "hostname.cluster.example",
                .gpu = true,
                .device = 0,
                .device_name = "NVIDIA H100 80GB HBM3",
                .bus_id = "0000:1b:00"}};
  return run;
}

Case row_of(std::size_t bytes, std::size_t count, DataType type, const std::string& op, int root = -1) {
  Case row;
  row.type = type;
  row.op_column = op;
  row.root = root;
  row.bytes = {bytes};
  row.count = count;
  return row;
}

CaseResult result_of(double time, double algbw, double busbw, std::optional<std::uint64_t> wrong) {
  CaseResult result;
  result.time_us = time;
  result.algbw = algbw;
  result.busbw = busbw;
  result.wrong = wrong;
  return result;
}

std::string row_text(const Plan& plan, const Case& row, const CaseResult& out, const CaseResult& in) {
  return printed(plan, [&](Table& table) {
    table.begin_row(row);
    table.cell(out, false);
    table.cell(in, true);
    table.end_row();
  });
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(TableHeader, IsThatOfNcclTestsWithTwoLinesMore) {
  const std::string text =
      printed(all_reduce_plan(), [](Table& t) { t.header(one_gpu(), {.json = "x.json", .record = "r.jsonl"}); });
  EXPECT_EQ(
      text,
      "# Writing JSON output to x.json\n"
      "# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809\n"
      "# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 "
      "validation: 1 graph: 0 unalign: 0\n"
      "#\n"
      "# Using devices\n"
      "#  Rank  0 Group  0 Pid 123456 on   hostname device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
      "# Library: NCCL 2.28.9, /usr/lib/libnccl.so.2\n"
      "# Record: r.jsonl\n"
      "#\n"
      "#                                                              out-of-place                       in-place  "
      "        \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   "
      "busbw  #wrong \n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  "
      "(GB/s)         \n");
}

TEST(TableHeader, TellsTheApiLevelApartFromALibrarysOwnVersion) {
  RunDescription run = one_gpu();
  run.library.name = "busbw CPU library 0.1.0";
  EXPECT_TRUE(has(printed(all_reduce_plan(), [&](Table& t) { t.header(run); }),
                  "\n# Library: busbw CPU library 0.1.0, NCCL API 2.28.9, /usr/lib/libnccl.so.2\n"));
}

TEST(TableHeader, NamesAnAdditiveStepInBytes) {
  Plan plan = all_reduce_plan();
  plan.sizes.factor = 1;
  EXPECT_TRUE(has(printed(plan, [](Table& t) { t.header(one_gpu()); }), " step: 1048576(bytes) warmup"));
}

TEST(TableHeader, SaysWhichModesAreOn) {
  Plan plan = all_reduce_plan();
  plan.parallel_init = true;
  plan.per_iteration = true;
  plan.per_iteration_skip = 2;
  const std::pair<Blocking, const char*> lines[] = {
      {Blocking::wait_and_barrier, "\n# Blocking Enabled: wait and barrier after each inner iteration (-m) \n"},
      {Blocking::wait, "\n# Blocking Enabled: wait after each inner iteration (-m), no barrier \n"},
      {Blocking::outer,
       "\n# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier \n"}};
  for (const auto& [blocking, line] : lines) {
    plan.blocking = blocking;
    EXPECT_TRUE(has(printed(plan, [](Table& t) { t.header(one_gpu()); }), line));
  }
  const std::string text = printed(plan, [](Table& t) { t.header(one_gpu()); });
  EXPECT_TRUE(has(text,
                  "\n# Per-Iteration Report: CUDA event timing; i_* uses max over process rows; summary skips first 2 "
                  "iterations \n# Parallel Init Enabled: threads call into NcclInitRank concurrently \n"));
}

TEST(TableHeader, RenamesTheTimeColumnAndAddsTimestamps) {
  Plan plan = all_reduce_plan();
  plan.report_cpu_time = true;
  plan.report_timestamps = true;
  const std::string text = printed(plan, [](Table& t) { t.header(one_gpu()); });
  EXPECT_TRUE(has(text,
                  "#       size         count      type   redop    root  cputime   algbw   busbw  #wrong  cputime  "
                  " algbw   busbw  #wrong           timestamp\n"));
  EXPECT_TRUE(has(text, "(us)  (GB/s)  (GB/s)           %Y-%m-%d %H:%M:%S\n"));
}

TEST(TableHeader, PutsThePerIterationTitlesOverTheirColumns) {
  Plan plan = all_reduce_plan();
  plan.per_iteration = true;
  const std::string text = printed(plan, [](Table& t) { t.header(one_gpu()); });
  EXPECT_TRUE(has(text, "out-of-place (+ per-iteration)                                in-place (+ per-iteration)\n"));
  EXPECT_TRUE(has(text, "    time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time"));
  EXPECT_TRUE(has(text, "     (us)     (us)     (us)      (%) \n"));
}

TEST(TableHeader, TellsThatTheMemoryLimitsTheSizes) {
  RunDescription run = one_gpu();
  run.memory_note = "# Reducing maxBytes to 1024 due to memory limitation";
  EXPECT_TRUE(has(printed(all_reduce_plan(), [&](Table& t) { t.header(run); }),
                  "\n# Reducing maxBytes to 1024 due to memory limitation\n#\n"));
}

TEST(TableRow, IsThatOfNcclTests) {
  EXPECT_EQ(row_text(all_reduce_plan(), row_of(8, 2, DataType::float32, "sum"), result_of(12.34, 0, 0, 0),
                     result_of(12.11, 0, 0, 0)),
            "           8             2     float     sum      -1    12.34    0.00    0.00       0    12.11    0.00    "
            "0.00       0\n");
  EXPECT_EQ(row_text(all_reduce_plan(), row_of(33554432, 1048576, DataType::bfloat16, "none"),
                     result_of(123.45, 271.81, 237.84, 0), result_of(124, 270.6, 236.78, std::nullopt)),
            "    33554432       1048576  bfloat16    none      -1   123.45  271.81  237.84       0   124.00  270.60  "
            "236.78    N/A\n");
}

TEST(TableRow, HasThirteenWordsAndTwelveWithoutAnOperation) {
  const CaseResult result = result_of(1, 2, 3, 0);
  EXPECT_EQ(words_of(row_text(all_reduce_plan(), row_of(8, 2, DataType::float32, "sum", 0), result, result)).size(),
            13u);
  EXPECT_EQ(words_of(row_text(all_reduce_plan(), row_of(8, 2, DataType::float32, ""), result, result)).size(), 12u);
}

TEST(TableRow, PrintsWrongElementsInSixSignificantDigits) {
  const std::string text = row_text(all_reduce_plan(), row_of(8, 2, DataType::float32, "sum"),
                                    result_of(1, 1, 1, 999999), result_of(1, 1, 1, 33554432));
  EXPECT_EQ(words_of(text)[8], "999999");
  EXPECT_EQ(words_of(text)[12], "3.35544e+07");
}

TEST(TableRow, ShowsTheTimeToLaunchWhereAsked) {
  Plan plan = all_reduce_plan();
  plan.report_cpu_time = true;
  CaseResult result = result_of(100, 1, 1, 0);
  result.cpu_time_us = 3.5;
  EXPECT_EQ(words_of(row_text(plan, row_of(8, 2, DataType::float32, "sum"), result, result))[5], "3.50");
}

TEST(TableRow, EndsWithTheLocalTimeOnceWhereAsked) {
  setenv("TZ", "UTC", 1);
  tzset();
  Plan plan = all_reduce_plan();
  plan.report_timestamps = true;
  CaseResult result = result_of(1, 1, 1, 0);
  result.timestamp = "2026-01-02T03:04:05.678Z";
  const std::string text = row_text(plan, row_of(8, 2, DataType::float32, "sum"), result, result);
  EXPECT_TRUE(text.ends_with("       0  2026-01-02 03:04:05\n")) << text;
  EXPECT_EQ(words_of(text).size(), 15u);
}

TEST(TableRow, AddsFourStatisticsToEachPlacement) {
  Plan plan = all_reduce_plan();
  plan.per_iteration = true;
  CaseResult result = result_of(1, 1, 1, 0);
  result.per_iteration = IterationStatistics{
      .min = 10.5, .max = 99.25, .p99 = 98, .cv_percent = 1.5, .times = {}, .per_process_maximum = {}};
  const std::string text = row_text(plan, row_of(8, 2, DataType::float32, "sum"), result, result);
  EXPECT_TRUE(has(text, "       0    10.50    99.25    98.00     1.50     1.00")) << text;
  EXPECT_EQ(words_of(text).size(), 21u);
}

TEST(TableRow, ShowsNoFiguresForACaseThatWasNotMeasuredButItsReason) {
  CaseResult failed;
  failed.outcome = Outcome::failed;
  failed.reason = "rank 1 was lost\nin the middle";
  const std::string text =
      row_text(all_reduce_plan(), row_of(8, 2, DataType::float32, "sum"), result_of(1, 1, 1, 0), failed);
  EXPECT_TRUE(has(text, "      N/A     N/A     N/A    N/A\n# in place: rank 1 was lost in the middle\n")) << text;
  EXPECT_EQ(words_of(text.substr(0, text.find('\n'))).size(), 13u);
}

TEST(TableRow, TellsTheIntervalBelowTheRow) {
  CaseResult result = result_of(1, 1, 1, 0);
  result.interval = Interval{.level = 0.95, .median = 1, .low = 0.99, .high = 1.01, .batches = 12, .reached = false};
  const std::string text = row_text(all_reduce_plan(), row_of(8, 2, DataType::float32, "sum"), result, result);
  EXPECT_TRUE(has(text,
                  "\n# out of place: 95 % interval of the median 0.99 to 1.01 us over 12 batches, not as narrow "
                  "as asked\n# in place: 95 %"))
      << text;
}

TEST(FixedWidth, DropsDecimalsBeforeItOutgrowsTheColumn) {
  const std::pair<double, const char*> seven[] = {
      {0, "   0.00"},        {1.005, "   1.00"},     {9999.99, "9999.99"},   {9999.995, "10000.0"},
      {1234.56, "1234.56"},  {12345.67, "12345.7"},  {99999.94, "99999.9"},  {99999.96, " 100000"},
      {123456.7, " 123457"}, {1234567.8, "1234568"}, {9999999.4, "9999999"}, {9999999.6, "1.0e+07"},
      {12345678, "1.2e+07"}, {-1.5, "  -1.50"}};
  for (const auto& [value, text] : seven) EXPECT_EQ(fixed_width(value, 7), text) << value;
  const std::pair<double, const char*> six[] = {{271.81, "271.81"},   {999.994, "999.99"}, {999.996, "1000.0"},
                                                {9999.94, "9999.9"},  {9999.96, " 10000"}, {123456, "123456"},
                                                {999999.4, "999999"}, {1234567, " 1e+06"}};
  for (const auto& [value, text] : six) EXPECT_EQ(fixed_width(value, 6), text) << value;
}

TEST(FixedWidth, FillsTheColumnExactlyForEveryMagnitude) {
  for (double value = 1e-3; value < 1e99; value *= 1.37) {
    EXPECT_EQ(fixed_width(value, 7).size(), 7u) << value;
    EXPECT_EQ(fixed_width(value, 6).size(), 6u) << value;
  }
}

TEST(Readable, UsesPowersOf1024AndThreeDigits) {
  EXPECT_EQ(readable({0}), "0.00 B");
  EXPECT_EQ(readable({512}), "512 B");
  EXPECT_EQ(readable({1024}), "1.00 KB");
  EXPECT_EQ(readable({15 << 20}), "15.0 MB");
  EXPECT_EQ(readable({std::size_t{3} << 30}), "3.00 GB");
  EXPECT_EQ(readable({std::size_t{5000} << 30}), "5000 GB");
}

TEST(TableFooter, IsThatOfNcclTests) {
  RunSummary summary;
  summary.busbw_sum = 205.658;
  summary.busbw_count = 2;
  EXPECT_EQ(printed(all_reduce_plan(), [&](Table& t) { t.footer(summary); }),
            "# Out of bounds values : 0 OK\n"
            "# Avg bus bandwidth    : 102.829 \n"
            "#\n"
            "# Collective test concluded: all_reduce_perf\n"
            "#\n"
            "\n");
}

TEST(TableFooter, SaysWhatFailed) {
  RunSummary summary;
  summary.busbw_sum = 178;
  summary.busbw_count = 1;
  summary.out_of_bounds = 3;
  summary.required_busbw = 200;
  summary.last_error = "unhandled\nsystem error";
  const auto text = [&] { return printed(all_reduce_plan(), [&](Table& t) { t.footer(summary); }); };
  EXPECT_TRUE(has(text(), "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 178 FAILED\n"));
  EXPECT_TRUE(text().ends_with("#\n# error: unhandled system error\n"));
  summary.busbw_sum = 181;  // above nine tenths of what was required
  EXPECT_TRUE(has(text(), "# Avg bus bandwidth    : 181 OK\n"));
}

TEST(TableFooter, GivesNoAverageOfNoRows) {
  EXPECT_TRUE(has(printed(all_reduce_plan(), [](Table& t) { t.footer({}); }), "# Avg bus bandwidth    : N/A \n"));
}

TEST(TableFooter, SumsTheMemoryWhereAsked) {
  Plan plan = all_reduce_plan();
  plan.report_memory = true;
  RunSummary summary;
  summary.memory_initialization = {std::size_t{1} << 30};
  summary.memory_user = {96 << 20};
  summary.memory_collective = {512};
  EXPECT_TRUE(
      has(printed(plan, [&](Table& t) { t.footer(summary); }),
          "# GPU memory usage     : Initialization 1.00 GB | User-Allocated 96.0 MB | Collective 512 B | Total  "
          "1.09 GB\n#\n"));
}

TEST(Table, ShowsWhatALibraryOrADeviceSaysAndDoesNotDoIt) {
  Plan plan;
  plan.collective = "all_reduce";
  RunSummary summary;
  summary.last_error =
      "a\x1b[31mb\rc\nd\xc2\x9b"
      "2J\x7f \xc3\xa9 \u202e\u2066 \U000e0041\xed\xa0\x80 \xe2\x80";
  const std::string text = printed(plan, [&](Table& table) { table.footer(summary); });
  EXPECT_NE(text.find("# error: a\\x1b[31mb c d\\x9b2J\\x7f \xc3\xa9 \\u202e\\u2066 \\U000e0041\\ud800 \xe2\x80\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace busbw
