// Every option, every bad word, and what options mean together.
#include "engine/app/options.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/app/nearest.h"
#include "engine/app/option_list.h"
#include "engine/core/error.h"

namespace busbw {
namespace {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

ReadVariable environment_of(const Variables& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Command command_of(const Words& words, const Variables& variables = {},
                   const std::string& program = "all_reduce_perf") {
  std::vector<const char*> argv{program.c_str()};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data(), environment_of(variables));
}

Plan plan_of(const Words& words, const Variables& variables = {}) { return command_of(words, variables).plan; }

// The sentence that refuses these words.
std::string refusal(const Words& words, const Variables& variables = {}, ExitCode code = ExitCode::bad_arguments) {
  try {
    command_of(words, variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "these words were taken: " << testing::PrintToString(words);
  return {};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(CommandLine, ProgramNameChoosesTheCollective) {
  EXPECT_EQ(command_of({}, {}, "/opt/bin/reduce_scatter_perf").plan.collective, "reduce_scatter");
  EXPECT_EQ(command_of({}, {}, "alltoallv_perf_mpi").plan.collective, "alltoallv");
  EXPECT_EQ(command_of({}, {}, "alltoallv_perf_mpi").plan.program, "alltoallv_perf_mpi");
}

TEST(CommandLine, FirstWordChoosesTheCollectiveOtherwise) {
  const Plan plan = command_of({"all_gather", "-b", "8"}, {}, "busbw-engine").plan;
  EXPECT_EQ(plan.collective, "all_gather");
  EXPECT_EQ(plan.program, "all_gather_perf");
  EXPECT_EQ(plan.arguments, (Words{"-b", "8"}));
  EXPECT_EQ(command_of({"reduce-scatter"}, {}, "busbw-engine").plan.collective, "reduce_scatter");
}

TEST(CommandLine, UnknownOrMissingCollectiveIsRefusedWithTheList) {
  for (const Words& words : {Words{}, Words{"all_reduc"}, Words{"-b", "8"}}) {
    try {
      command_of(words, {}, "busbw-engine");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_arguments);
      EXPECT_TRUE(has(error.what(), "hypercube")) << error.what();
    }
  }
}

TEST(CommandLine, DefaultsAreThoseOfNcclTests) {
  const Plan plan = plan_of({});
  EXPECT_EQ(plan.sizes.first.count, 33554432u);
  EXPECT_EQ(plan.sizes.last.count, 33554432u);
  EXPECT_EQ(plan.sizes.step.count, 1048576u);
  EXPECT_EQ(plan.sizes.factor, 1);
  EXPECT_EQ(plan.iterations, 20);
  EXPECT_EQ(plan.warmup_iterations, 1);
  EXPECT_EQ(plan.checks, 1);
  EXPECT_EQ(plan.types, std::vector<DataType>{DataType::float32});
  EXPECT_EQ(plan.ops, std::vector<RedOp>{RedOp::sum});
  EXPECT_EQ(plan.average, Average::mean);
  EXPECT_EQ(plan.device_cta_count, 16);
  EXPECT_TRUE(plan.warnings.empty());
}

TEST(CommandLine, ReadsEveryOptionByItsLetter) {
  const Plan plan = plan_of({"-t", "2",      "-g", "4", "-b", "8", "-e", "1G", "-i", "2K", "-f", "2",   "-n", "50",
                             "-m", "3",      "-w", "5", "-N", "0", "-p", "1",  "-c", "2",  "-o", "max", "-d", "half",
                             "-r", "1",      "-z", "2", "-y", "1", "-T", "60", "-G", "7",  "-C", "1",   "-S", "1",
                             "-J", "x.JSON", "-a", "3", "-R", "2", "-x", "1",  "-V", "32", "-M", "1",   "-u", "9"});
  EXPECT_EQ(plan.threads, 2);
  EXPECT_EQ(plan.devices, 4);
  EXPECT_EQ(plan.sizes.first.count, 8u);
  EXPECT_EQ(plan.sizes.last.count, 1u << 30);
  EXPECT_EQ(plan.sizes.step.count, 2048u);
  EXPECT_EQ(plan.sizes.factor, 2);
  EXPECT_EQ(plan.iterations, 50);
  EXPECT_EQ(plan.aggregated, 3);
  EXPECT_EQ(plan.warmup_iterations, 5);
  EXPECT_EQ(plan.cycles, 0);
  EXPECT_TRUE(plan.parallel_init);
  EXPECT_EQ(plan.checks, 2);
  EXPECT_EQ(plan.ops, std::vector<RedOp>{RedOp::max});
  EXPECT_EQ(plan.types, std::vector<DataType>{DataType::float16});
  EXPECT_EQ(plan.root, 1);
  EXPECT_EQ(plan.blocking, Blocking::wait);
  EXPECT_TRUE(plan.null_stream);
  EXPECT_EQ(plan.timeout_seconds, 60);
  EXPECT_EQ(plan.graph_launches, 7);
  EXPECT_TRUE(plan.report_cpu_time);
  EXPECT_TRUE(plan.report_timestamps);
  EXPECT_EQ(plan.json_path, "x.JSON");
  EXPECT_EQ(plan.average, Average::max);
  EXPECT_EQ(plan.registration, Registration::symmetric);
  EXPECT_EQ(plan.cta_policy, 1);
  EXPECT_EQ(plan.device_cta_count, 32);
  EXPECT_TRUE(plan.report_memory);
  EXPECT_EQ(plan.unaligned_elements, 9u);
}

TEST(CommandLine, ReadsOurOwnLongOptions) {
  const Plan plan = plan_of({"--library", "cpu", "--record=r.jsonl", "--run-id", "name", "--precision", "1%",
                             "--row-budget", "2.5", "--progress", "--split", "MOD 2", "--full-environment"});
  EXPECT_EQ(plan.library, "cpu");
  EXPECT_EQ(plan.record_path, "r.jsonl");
  EXPECT_EQ(plan.run_id, "name");
  EXPECT_DOUBLE_EQ(plan.precision.value(), 0.01);
  EXPECT_DOUBLE_EQ(plan.max_seconds, 2.5);
  EXPECT_TRUE(plan.progress);
  EXPECT_EQ(plan.split, "MOD 2");
  EXPECT_TRUE(plan.full_environment);
}

TEST(CommandLine, ReadsTheTimeOfARowAsEveryTimeIsRead) {
  for (const auto& [text, seconds] : std::map<std::string, double>{
           {"90", 90}, {"90s", 90}, {"2m", 120}, {"2min", 120}, {"1.5h", 5400}, {"00:01:30", 90}})
    EXPECT_DOUBLE_EQ(plan_of({"--row-budget", text}).max_seconds, seconds) << text;
  for (const char* text : {"", "0", "0s", "-1", "5d", "1:2", "00:00:00", "1:2:3x", "s", "inf"})
    EXPECT_TRUE(has(refusal({"--row-budget", text}), "a time above 0")) << text;
}

TEST(CommandLine, AnOldNameGoesOnForARelease) {
  testing::internal::CaptureStderr();
  EXPECT_DOUBLE_EQ(plan_of({"--max-seconds", "2.5"}).max_seconds, 2.5);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "busbw: --max-seconds is now --row-budget; the old name goes with the next release\n");
}

TEST(CommandLine, AnOptionOfALaunchNamesItsPlace) {
  EXPECT_TRUE(has(refusal({"--launcher", "slurm"}), "`busbw COLLECTIVE`"));
  EXPECT_TRUE(has(refusal({"--launchr", "slurm"}), "did you mean --launcher?"));
}

TEST(CommandLine, OnlyProgramsOfNcclTestsStandIn) {
  EXPECT_TRUE(stands_in("/opt/all_reduce_perf"));
  EXPECT_TRUE(stands_in("alltoall_perf_mpi"));
  EXPECT_FALSE(stands_in("/opt/busbw-engine"));
  EXPECT_FALSE(stands_in(nullptr));
}

TEST(ExitStatus, IsThatOfNcclTestsOrThatOfEveryVerb) {
  EXPECT_EQ(exit_status(ExitCode::bad_arguments), 255);
  EXPECT_EQ(exit_status(ExitCode::cuda), 2);
  exit_codes = ExitCodes::busbw;
  EXPECT_EQ(exit_status(ExitCode::bad_arguments), 2);
  EXPECT_EQ(exit_status(ExitCode::cuda), 8);
  EXPECT_EQ(exit_status(ExitCode::wrong_data), 7);
  exit_codes = ExitCodes::nccl_tests;
}

TEST(CommandLine, TakesWordsTheWayGetoptLongDoes) {
  EXPECT_EQ(plan_of({"-n50"}).iterations, 50);
  EXPECT_EQ(plan_of({"--iters=50"}).iterations, 50);
  EXPECT_EQ(plan_of({"--it", "50"}).iterations, 50);
  EXPECT_EQ(plan_of({"--run_cyc", "3"}).cycles, 3);
  EXPECT_EQ(plan_of({"-n", "5", "-n", "6"}).iterations, 6);
  EXPECT_EQ(plan_of({"-n", "0x10"}).iterations, 16);
  EXPECT_EQ(plan_of({"--"}).iterations, 20);
}

TEST(CommandLine, NewNamesDoNotChangeThePrefixesOfOldOnes) {
  EXPECT_EQ(plan_of({"--l", "1"}).registration, Registration::local);  // not --library
  EXPECT_EQ(plan_of({"--run", "3"}).cycles, 3);                        // not --run-id
  EXPECT_EQ(plan_of({"--max", "64M"}).sizes.last.count, 64u << 20);    // not --max-seconds
  EXPECT_EQ(plan_of({"--max_seconds", "3"}).max_seconds, 3);
}

TEST(CommandLine, HelpAndVersionEndTheParsing) {
  EXPECT_EQ(command_of({"-h", "--nonsense"}).kind, Command::Kind::help);
  EXPECT_EQ(command_of({"--help"}).kind, Command::Kind::help);
  EXPECT_EQ(command_of({"--version"}).kind, Command::Kind::version);
  EXPECT_EQ(command_of({"--help"}, {}, "busbw-engine").kind, Command::Kind::help);
  EXPECT_FALSE(command_of({"--version"}).text.empty());
}

TEST(CommandLine, RefusesWordsThatItDoesNotKnow) {
  EXPECT_TRUE(has(refusal({"--itres", "5"}), "did you mean --iters"));
  EXPECT_TRUE(has(refusal({"--frobnicate"}), "--help"));
  EXPECT_TRUE(has(refusal({"-Q"}), "-Q"));
  EXPECT_TRUE(has(refusal({"--m", "5"}), "minbytes"));
  EXPECT_TRUE(has(refusal({"all_reduce"}), "all_reduce"));
  EXPECT_TRUE(has(refusal({"--", "word"}), "word"));
  EXPECT_TRUE(has(refusal({"-"}), "'-'"));
  EXPECT_TRUE(has(refusal({"--progress=1"}), "no value"));
  EXPECT_TRUE(has(refusal({"-n"}), "needs a value"));
  EXPECT_TRUE(has(refusal({"--iters"}), "needs a value"));
}

TEST(CommandLine, RefusesValuesThatAreNoNumberOrOutOfRange) {
  const Words bad[] = {
      {"-n", "abc"}, {"-n", "0"},   {"-n", "-5"}, {"-n", ""},   {"-n", "5x"}, {"-n", "1.5"}, {"-t", "0"},
      {"-g", "0"},   {"-m", "0"},   {"-w", "-1"}, {"-N", "-1"}, {"-c", "-1"}, {"-z", "4"},   {"-a", "4"},
      {"-R", "3"},   {"-x", "3"},   {"-T", "-1"}, {"-u", "-1"}, {"-G", "x"},  {"-f", "-2"},  {"-n", "9999999999"},
      {"-r", "-2"},  {"-r", "any"}, {"-r", ""},   {"-b", "8Q"}, {"-e", "-1"}, {"-i", ""}};
  for (const Words& words : bad) EXPECT_TRUE(has(refusal(words), words[0])) << words[0] << " " << words[1];
}

TEST(CommandLine, NamesTheKnownTypesAndOperations) {
  EXPECT_TRUE(has(refusal({"-d", "floot"}), "did you mean float?"));
  EXPECT_TRUE(has(refusal({"-d", "fp16"}), "did you mean half?"));
  EXPECT_TRUE(has(refusal({"-d", "zzzzzz"}), "'zzzzzz'. The types are int8, uint8"));
  EXPECT_TRUE(has(refusal({"-o", "summ"}), "did you mean sum?"));
  EXPECT_TRUE(has(refusal({"-o", "xor"}), "mulsum and all"));
}

TEST(CommandLine, AllStandsForEveryTypeOperationAndRoot) {
  const Plan plan = plan_of({"-d", "all", "-o", "all", "-r", "all"});
  EXPECT_TRUE(plan.all_types && plan.all_ops && plan.all_roots);
  EXPECT_EQ(plan.types.size(), 12u);
  EXPECT_EQ(plan.ops.size(), 6u);
  EXPECT_TRUE(plan_of({"-r", "-1"}).all_roots);
  EXPECT_FALSE(plan_of({"-r", "all", "-r", "2"}).all_roots);
}

TEST(CommandLine, RefusesSizesThatMakeNoSweep) {
  EXPECT_TRUE(has(refusal({"-b", "64M"}), "-b"));
  EXPECT_TRUE(has(refusal({"-b", "8", "-e", "64", "-i", "0"}), "-i 0"));
  EXPECT_TRUE(has(refusal({"-b", "0", "-e", "64M", "-i", "1"}), "1000000 sizes"));
  EXPECT_EQ(plan_of({"-b", "0", "-e", "64", "-f", "2"}).sizes.first.count, 0u);
}

TEST(CommandLine, IgnoresWithAWarningWhatNcclTestsIgnores) {
  const Plan blocking = plan_of({"-z", "3", "-G", "1"});
  EXPECT_EQ(blocking.blocking, Blocking::none);
  EXPECT_EQ(blocking.warnings.size(), 1u);
  EXPECT_EQ(plan_of({"-z", "3"}).blocking, Blocking::outer);

  EXPECT_FALSE(plan_of({"-I", "1", "-G", "1"}).per_iteration);
  EXPECT_FALSE(plan_of({"-I", "2"}).per_iteration);
  EXPECT_EQ(plan_of({"-I", "2"}).warnings.size(), 1u);
  EXPECT_EQ(plan_of({"-I", "1", "-K", "3"}).per_iteration_skip, 3);
  EXPECT_EQ(plan_of({"-K", "3", "-I", "1", "-n", "4"}).per_iteration_skip, 3);
  for (const char* skip : {"20", "-1", "1000"}) {
    const Plan plan = plan_of({"-I", "1", "-K", skip});
    EXPECT_EQ(plan.per_iteration_skip, 0);
    EXPECT_EQ(plan.warnings.size(), 1u);
  }
  EXPECT_EQ(plan_of({"-K", "3"}).warnings.size(), 1u);
  for (const char* count : {"0", "129", "-3"}) {
    EXPECT_EQ(plan_of({"-V", count}).device_cta_count, 16);
    EXPECT_EQ(plan_of({"-V", count}).warnings.size(), 1u);
  }
}

TEST(CommandLine, DeviceKernelsAreNotImplemented) {
  EXPECT_EQ(plan_of({"-D", "0"}).device_implementation, 0);
  EXPECT_FALSE(refusal({"-D", "1"}, {}, ExitCode::not_implemented).empty());
}

TEST(CommandLine, RefusesOutputsThatWouldBeWrittenNowhere) {
  EXPECT_TRUE(has(refusal({"-J", "out.txt"}), ".json"));
  EXPECT_TRUE(has(refusal({"-J", ".json"}), ".json"));
  EXPECT_FALSE(refusal({"--record", "-"}).empty());
  EXPECT_FALSE(refusal({"--record", ""}).empty());
  EXPECT_FALSE(refusal({"--run-id", "two words"}).empty());
  EXPECT_FALSE(refusal({"--library", ""}).empty());
}

TEST(CommandLine, PrecisionIsAPartOrAPercentage) {
  EXPECT_DOUBLE_EQ(plan_of({"--precision", "0.01"}).precision.value(), 0.01);
  EXPECT_DOUBLE_EQ(plan_of({"--precision", "0.5 %"}).precision.value(), 0.005);
  EXPECT_DOUBLE_EQ(plan_of({"--precision=50%"}).precision.value(), 0.5);
  for (const char* text : {"", "%", "0", "-1%", "1", "51%", "nan", "1%%", "x"})
    EXPECT_FALSE(refusal({"--precision", text}).empty());
  for (const char* text : {"0", "-1", "inf", "1x", ""}) EXPECT_FALSE(refusal({"--row-budget", text}).empty());
}

TEST(CommandLine, TakesTheSplitAndTheRunIdFromTheEnvironment) {
  EXPECT_EQ(plan_of({}, {{"NCCL_TESTS_SPLIT", "%4"}}).split, "%4");
  EXPECT_EQ(plan_of({}, {{"NCCL_TESTS_SPLIT", "%4"}, {"NCCL_TESTS_SPLIT_MASK", "0xF0"}}).split, "AND 0xF0");
  EXPECT_EQ(plan_of({}, {{"NCCL_TESTS_SPLIT_MASK", "7"}}).split, "AND 0x7");
  EXPECT_EQ(plan_of({"--split", "DIV 8"}, {{"NCCL_TESTS_SPLIT", "%4"}}).split, "DIV 8");
  EXPECT_FALSE(refusal({}, {{"NCCL_TESTS_SPLIT", "nonsense"}}).empty());
  EXPECT_FALSE(refusal({}, {{"NCCL_TESTS_SPLIT_MASK", "xyz"}}).empty());
  EXPECT_EQ(plan_of({}, {{"BUSBW_RUN_ID", "theirs"}}).run_id, "theirs");
  EXPECT_EQ(plan_of({"--run-id", "mine"}, {{"BUSBW_RUN_ID", "theirs"}}).run_id, "mine");
}

TEST(CommandLine, NeverCrashesOnRandomWords) {
  std::mt19937_64 random(3);
  const std::string letters = "-=0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ%. ";
  for (int i = 0; i < 20'000; ++i) {
    Words words;
    for (std::size_t count = random() % 4; count > 0; --count) {
      std::string word = random() % 2 ? "-" : "";
      for (std::size_t length = random() % 6; length > 0; --length) word += letters[random() % letters.size()];
      words.push_back(word);
    }
    try {
      command_of(words);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ExitCode::bad_arguments || error.code() == ExitCode::not_implemented);
      EXPECT_FALSE(has(error.what(), "\n"));
    }
  }
}

TEST(CheckRanks, RefusesARootOutsideOfARootedCommunicator) {
  Plan plan;
  plan.collective = "broadcast";
  plan.root = 4;
  EXPECT_THROW(check_ranks(plan, 4), Error);
  EXPECT_NO_THROW(check_ranks(plan, 5));
  plan.collective = "all_reduce";
  EXPECT_NO_THROW(check_ranks(plan, 4));
}

TEST(RequiredBusbw, ReadsAPlainNumberOnly) {
  EXPECT_EQ(required_busbw(environment_of({})), std::nullopt);
  EXPECT_EQ(required_busbw(environment_of({{"NCCL_TESTS_MIN_BW", "200.5"}})), 200.5);
  EXPECT_EQ(required_busbw(environment_of({{"NCCL_TESTS_MIN_BW", "0"}})), 0.0);
  for (const char* text : {"x", "-1", "20GB", "nan"})
    EXPECT_THROW(required_busbw(environment_of({{"NCCL_TESTS_MIN_BW", text}})), Error);
}

TEST(SplitColour, AppliesEachOperationInEverySpelling) {
  EXPECT_EQ(split_colour("", 5), 0);
  for (const char* text : {"AND 3", "and3", "& 3", "&0x3", "AND 0b11", " And  03 "})
    EXPECT_EQ(split_colour(text, 6), 2);
  for (const char* text : {"OR 8", "|8", "or 0x8", "|010"}) EXPECT_EQ(split_colour(text, 6), 14);
  for (const char* text : {"MOD 4", "%4", "mod 0b100"}) EXPECT_EQ(split_colour(text, 6), 2);
  for (const char* text : {"DIV 4", "/4", "div 04"}) EXPECT_EQ(split_colour(text, 6), 1);
  EXPECT_EQ(split_colour("AND 0xffffffffffffffff", 6), 6);
}

TEST(SplitColour, RefusesWhatCannotBeRead) {
  for (const char* text : {" ", "XOR 1", "MOD", "MOD x", "MOD 0", "DIV 0", "% 0x0", "MOD 4x", "MOD -1", "AND 0b2",
                           "AND 0x", "AND 09", "OR 0x80000000", "4", "AND 99999999999999999999"})
    EXPECT_THROW(split_colour(text, 1), Error) << text;
}

TEST(Nearest, SuggestsCloseNamesOnly) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("itres", "iters"), 1u);
  EXPECT_EQ(nearest("braodcast", {"reduce", "broadcast"}), "broadcast");
  EXPECT_EQ(nearest("xyz", {"reduce", "broadcast"}), "");
  EXPECT_EQ(nearest(std::string(100'000, 'a'), {"reduce"}), "");
  EXPECT_EQ(listed({"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace busbw
