// The -J file against nccl-tests' schema version 3.
#include "engine/record/nccl_tests_json.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <filesystem>
#include <limits>

#include "engine/core/error.h"
#include "engine/tests/record/files.h"
#include "engine/tests/record/sample_run.h"
#include "engine/tests/record/strict_json.h"

namespace busbw {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class NcclTestsJsonFile : public testing::Test {
 protected:
  NcclTestsJsonFile() {
    setenv("TZ", "UTC", 1);
    tzset();
  }

  std::string text() const { return text_of(folder_.file("out.json")); }

  TemporaryFolder folder_;
  NcclTestsJson json_{folder_.file("out.json")};
};

TEST_F(NcclTestsJsonFile, IsCompleteJsonAfterEveryCall) {
  EXPECT_TRUE(StrictJson::accepts(text())) << text();
  json_.begin(sample_plan(), sample_run(), {{"NCCL_DEBUG", "WARN"}});
  EXPECT_TRUE(StrictJson::accepts(text())) << text();
  for (int row = 0; row < 3; ++row) {
    json_.row(sample_case(), sample_result(), sample_result());
    EXPECT_TRUE(StrictJson::accepts(text())) << text();
  }
  json_.end({});
  EXPECT_TRUE(StrictJson::accepts(text())) << text();
  EXPECT_TRUE(text().ends_with("}\n"));
}

TEST_F(NcclTestsJsonFile, HasTheNamesOfVersionThree) {
  json_.begin(sample_plan(), sample_run(), {{"NCCL_DEBUG", "WARN"}});
  json_.row(sample_case(), sample_result(), sample_result());
  json_.end({});
  EXPECT_TRUE(
      text().starts_with(R"({"version":3,"start_time":"2026-01-02 03:04:05","args":["all_reduce_perf","-b","8",)"))
      << text();
  EXPECT_TRUE(has(text(), R"("env":["NCCL_DEBUG=WARN"],"nccl_version":22809,"config":{"nthreads":2,"ngpus":1,)"
                          R"("minimum_bytes":8,"maximum_bytes":16,"step_factor":2,"warmup_iters":1,"iterations":20,)"
                          R"("aggregated_iterations":1,"validation":1,"graph":0,"blocking_collectives":"false",)"
                          R"("per_iter_timing":"false","per_iter_skip":0,"parallel_init":"false","devices":[)"))
      << text();
  EXPECT_TRUE(has(text(),
                  R"("results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1",)"
                  R"("out_of_place":{"time":0.5,"alg_bw":0.016,"bus_bw":0.016,"nwrong":0},)"
                  R"("in_place":{"time":0.5,"alg_bw":0.016,"bus_bw":0.016,"nwrong":0},)"
                  R"("actual_iterations":20,"experiment_name":""}],"out_of_bounds":{"count":0,"okay":"true"},)"
                  R"("average_bus_bandwidth":{"bandwidth":null,"okay":"unchecked"},"errors":[""],"end_time":")"))
      << text();
}

TEST_F(NcclTestsJsonFile, ListsOneDevicePerProcessAndEveryRankBeside) {
  json_.begin(sample_plan(), sample_run(), {});
  const std::string all = text();
  const std::string devices = all.substr(all.find("\"devices\""), all.find("\"ranks\"") - all.find("\"devices\""));
  EXPECT_EQ(devices, R"("devices":[{"rank":0,"group":0,"pid":11,"hostname":"example","device":0,"device_hex":"",)"
                     R"("device_info":"example CPU"}],)");
  EXPECT_TRUE(has(all, R"("ranks":[{"rank":0,)"));
  EXPECT_TRUE(has(all, R"({"rank":1,"group":0,"pid":11,)"));
}

// An integer in nccl-tests, however many elements are wrong.
TEST_F(NcclTestsJsonFile, CountsWrongElementsWithoutAPointOrExponent) {
  json_.begin(sample_plan(), sample_run(), {});
  CaseResult wrong = sample_result();
  wrong.wrong = 12'345'678'901;
  json_.row(sample_case(), wrong, wrong);
  EXPECT_TRUE(has(text(), R"("nwrong":12345678901})")) << text();
}

TEST_F(NcclTestsJsonFile, WritesNoInfinityAndNoFiguresThatWereNotMeasured) {
  json_.begin(sample_plan(), sample_run(), {});
  CaseResult odd = sample_result();
  odd.algbw = std::numeric_limits<double>::infinity();
  odd.busbw = std::numeric_limits<double>::quiet_NaN();
  odd.wrong.reset();
  CaseResult failed;
  failed.outcome = Outcome::failed;
  json_.row(sample_case(), odd, failed);
  json_.row(sample_case(), failed, failed);
  EXPECT_TRUE(has(text(), R"("out_of_place":{"time":0.5,"alg_bw":null,"bus_bw":null,"nwrong":null},)"
                          R"("in_place":{"time":null,"alg_bw":null,"bus_bw":null,"nwrong":null})"));
  EXPECT_TRUE(StrictJson::accepts(text()));
  EXPECT_EQ(text().find("\"size\""), text().rfind("\"size\"")) << "the row without figures was written";
}

TEST_F(NcclTestsJsonFile, WritesPerIterationStatistics) {
  Plan plan = sample_plan();
  plan.report_cpu_time = true;
  json_.begin(plan, sample_run(), {});
  CaseResult result = sample_result();
  result.per_iteration = IterationStatistics{.skipped = 1,
                                             .min = 1,
                                             .max = 2,
                                             .mean = 1.5,
                                             .p50 = 2,
                                             .p95 = 2,
                                             .p99 = 2,
                                             .stdev = 0.5,
                                             .cv_percent = 33,
                                             .times = {1, 2},
                                             .per_process_maximum = {}};
  json_.row(sample_case(), result, sample_result());
  EXPECT_TRUE(has(text(), R"("out_of_place":{"cpu_time":0.25,)"));
  EXPECT_TRUE(has(text(),
                  R"("out_of_place_per_iter":{"skipped_iterations":1,"min_us":1,"max_us":2,"avg_us":1.5,"p50_us":2,)"
                  R"("p95_us":2,"p99_us":2,"stdev_us":0.5,"cv_pct":33,"times_us":[1,2]},"in_place")"));
}

TEST_F(NcclTestsJsonFile, TellsWhyARunFailed) {
  json_.begin(sample_plan(), sample_run(), {});
  RunSummary summary;
  summary.reason = "rank 1 was lost";
  summary.out_of_bounds = 2;
  summary.required_busbw = 100;
  summary.busbw_sum = 10;
  summary.busbw_count = 1;
  json_.end(summary);
  EXPECT_TRUE(has(text(), R"("out_of_bounds":{"count":2,"okay":"false"},"average_bus_bandwidth":{"bandwidth":10,)"
                          R"("okay":"false"},"errors":["rank 1 was lost"])"))
      << text();
}

TEST_F(NcclTestsJsonFile, NeverReplacesAnotherFile) {
  const NcclTestsJson second(folder_.file("out.json"));
  const NcclTestsJson third(folder_.file("out.json"));
  EXPECT_EQ(second.path(), folder_.file("out.json.0"));
  EXPECT_EQ(third.path(), folder_.file("out.json.1"));
}

TEST_F(NcclTestsJsonFile, LeavesNoEmptyFileWhereTheDiskIsFull) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{.rlim_cur = 0, .rlim_max = before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &full);
  EXPECT_THROW(NcclTestsJson(folder_.file("full.json")), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("full.json")));
}

TEST(NcclTestsJsonPath, IsRefusedWhereItCannotBeWritten) {
  try {
    NcclTestsJson json("/nonexistent-folder/out.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_arguments);
  }
}

}  // namespace
}  // namespace busbw
