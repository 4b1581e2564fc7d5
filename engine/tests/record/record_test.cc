// The lines of a record, and what becomes of a file that cannot be one.
#include "engine/record/record.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/core/error.h"
#include "engine/tests/record/files.h"
#include "engine/tests/record/sample_run.h"
#include "engine/tests/record/strict_json.h"

namespace busbw {
namespace {

constexpr const char* run_id = "20260102T030405Z-example-0a1b2c";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Record, WritesOneStrictLinePerFact) {
  const TemporaryFolder folder;
  RecordWriter record(folder.file("r.jsonl"), run_id);
  record.write_run(sample_plan(), sample_run());
  record.write_case("all_reduce", 2, sample_plan(), sample_case(), sample_result());
  record.write_end({});
  const auto lines = lines_of(folder.file("r.jsonl"));
  ASSERT_EQ(lines.size(), 3u);
  for (const std::string& line : lines) EXPECT_TRUE(StrictJson::accepts(line)) << line;
}

TEST(Record, WritesACaseAsTheSchemaHasIt) {
  const TemporaryFolder folder;
  RecordWriter record(folder.file("r.jsonl"), run_id);
  record.write_case("all_reduce", 2, sample_plan(), sample_case(), sample_result());
  EXPECT_EQ(text_of(folder.file("r.jsonl")),
            R"({"schema":1,"kind":"case","run":"20260102T030405Z-example-0a1b2c","case":0,"cycle":0,)"
            R"("collective":"all_reduce","type":"float","op":"sum","root":null,"ranks":2,"bytes":8,)"
            R"("requested_bytes":8,"count":2,"placement":"out_of_place","outcome":"measured","reason":null,)"
            R"("time_us":0.5,"cpu_time_us":0.25,"algbw_GBps":0.016,"busbw_GBps":0.016,"average":"mean","wrong":0,)"
            R"("checks":1,"iterations":20,"aggregated":1,"graph_launches":0,"batches_us":[[0.5],[0.5]],)"
            R"("interval":null,"timestamp":"2026-01-02T03:04:05.700Z"})"
            "\n");
}

TEST(Record, GivesNoFiguresForACaseThatWasNotMeasured) {
  const TemporaryFolder folder;
  RecordWriter record(folder.file("r.jsonl"), run_id);
  CaseResult skipped;
  skipped.outcome = Outcome::skipped;
  skipped.reason = "avg needs NCCL 2.10";
  record.write_case("broadcast", 2, sample_plan(), sample_case(), skipped);
  const std::string line = text_of(folder.file("r.jsonl"));
  EXPECT_TRUE(has(line, R"("outcome":"skipped","reason":"avg needs NCCL 2.10","time_us":null,"cpu_time_us":null,)"
                        R"("algbw_GBps":null,"busbw_GBps":null)"));
  EXPECT_TRUE(has(line, R"("wrong":null)"));
}

TEST(Record, WritesIterationsByProcessAndIntervals) {
  const TemporaryFolder folder;
  RecordWriter record(folder.file("r.jsonl"), run_id);
  CaseResult result = sample_result();
  result.per_iteration = IterationStatistics{.times = {2, 3}, .per_process_maximum = {{1, 3}, {2, 2}}};
  result.interval = Interval{.level = 0.95, .median = 2, .low = 1.9, .high = 2.1, .batches = 9, .reached = true};
  record.write_case("all_reduce", 2, sample_plan(), sample_case(), result);
  result.per_iteration->per_process_maximum.clear();
  record.write_case("all_reduce", 2, sample_plan(), sample_case(), result);
  const auto lines = lines_of(folder.file("r.jsonl"));
  EXPECT_TRUE(has(lines[0], R"("iterations_us":[[1,3],[2,2]])"));
  EXPECT_TRUE(has(lines[0], R"("interval":{"of":"median","level":0.95,"median_us":2,"low_us":1.9,"high_us":2.1,)"
                            R"("batches":9,"reached":true})"));
  EXPECT_TRUE(has(lines[1], R"("iterations_us":[[2,3]])"));
}

TEST(Record, KeepsWhatTheGpusToldAroundACase) {
  const TemporaryFolder folder;
  CaseResult result = sample_result();
  GpuReading reading{.rank = 3};
  reading.before.sm_clock_mhz = 1980;
  reading.after.sm_clock_mhz = 1215;
  reading.after.throttle_reasons = 0x40;
  result.context = CaseContext{.cases = 2, .reading_us = 350, .ranks = {reading}, .warnings = {"hot"}};
  RecordWriter record(folder.file("r.jsonl"), run_id);
  record.write_case("all_reduce", 4, sample_plan(), sample_case(), result);
  EXPECT_TRUE(has(lines_of(folder.file("r.jsonl"))[0],
                  R"("context":{"cases":2,"reading_us":350,"warnings":["hot"],"ranks":[{"rank":3,)"
                  R"("before":{"sm_clock_mhz":1980},)"
                  R"("after":{"sm_clock_mhz":1215,"throttle_reasons":["hw_thermal_slowdown"]}}]})"));
}

TEST(Record, EndsWithTheOutcomeOfTheRun) {
  const TemporaryFolder folder;
  RunSummary summary;
  summary.cases = 2;
  summary.busbw_sum = 3;
  summary.busbw_count = 2;
  RecordWriter record(folder.file("r.jsonl"), run_id);
  record.write_end(summary);
  summary.outcome = Outcome::failed;
  summary.reason = "rank 1 was lost";
  summary.exit_code = 3;
  record.write_end(summary);
  summary.interrupted = true;
  record.write_end(summary);
  const auto lines = lines_of(folder.file("r.jsonl"));
  EXPECT_TRUE(has(lines[0], R"("outcome":"completed","reason":null,"exit_code":0,"cases":2,"out_of_bounds":0,)"
                            R"("average_busbw_GBps":1.5})"));
  EXPECT_TRUE(has(lines[1], R"("outcome":"failed","reason":"rank 1 was lost","exit_code":3)"));
  EXPECT_TRUE(has(lines[2], R"("outcome":"interrupted")"));
}

TEST(Record, NamesTheHashOfTheLibrary) {
  const TemporaryFolder folder;
  {
    std::ofstream(folder.file("small.so")) << "abc";
  }
  {
    std::ofstream(folder.file("large.so")) << std::string((8 << 20) + 1, 'a');
  }
  RunDescription run = sample_run();
  for (const char* library : {"small.so", "large.so", "none.so"}) {
    run.library.path = folder.file(library);
    RecordWriter record(folder.file(std::string(library) + ".jsonl"), run_id);
    record.write_run(sample_plan(), run);
    record.write_end({});
  }
  const auto small = lines_of(folder.file("small.so.jsonl"));
  EXPECT_TRUE(has(small[0], R"("sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")"));
  EXPECT_FALSE(has(small[1], "library_sha256"));
  const auto large = lines_of(folder.file("large.so.jsonl"));
  EXPECT_TRUE(has(large[0], R"("sha256":null)"));
  EXPECT_TRUE(has(large[1], R"("library_sha256":")")) << large[1];
  EXPECT_TRUE(has(lines_of(folder.file("none.so.jsonl"))[0], R"("sha256":null)"));
}

TEST(Record, MakesTheFoldersAboveIt) {
  const TemporaryFolder folder;
  RecordWriter record(folder.file("a/b/c/r.jsonl"), run_id);
  record.write_end({});
  EXPECT_EQ(lines_of(folder.file("a/b/c/r.jsonl")).size(), 1u);
}

TEST(Record, IsNeverWrittenOverAnother) {
  const TemporaryFolder folder;
  {
    std::ofstream(folder.file("r.jsonl")) << "precious\n";
  }
  EXPECT_THROW(RecordWriter(folder.file("r.jsonl"), run_id), Error);
  EXPECT_EQ(text_of(folder.file("r.jsonl")), "precious\n");
  {
    std::ofstream(folder.file("empty.jsonl"));
  }
  EXPECT_NO_THROW(RecordWriter(folder.file("empty.jsonl"), run_id));
}

TEST(Record, RefusesPathsThatCannotBeWritten) {
  const TemporaryFolder folder;
  {
    std::ofstream(folder.file("file")) << "x";
  }
  mkdir(folder.file("folder").c_str(), 0755);
  for (const std::string& path :
       {folder.file("file/r.jsonl"), folder.file("folder"), std::string("/proc/none/r.jsonl")}) {
    try {
      RecordWriter record(path, run_id);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_arguments);
    }
  }
}

TEST(Record, TellsOfAFullDisk) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this system has no /dev/full";
  RecordWriter record("/dev/full", run_id);
  try {
    record.write_end({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.what(), "No space left")) << error.what();
  }
}

TEST(Record, KeepsWhatWasMeasuredWhenTheProcessIsKilled) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    RecordWriter record(folder.file("r.jsonl"), run_id);
    record.write_run(sample_plan(), sample_run());
    for (int i = 0; i < 3; ++i) record.write_case("all_reduce", 2, sample_plan(), sample_case(), sample_result());
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto lines = lines_of(folder.file("r.jsonl"));
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) EXPECT_TRUE(StrictJson::accepts(line));
}

}  // namespace
}  // namespace busbw
