// Every option with its meaning, its default and what it does to the plan.
#include "engine/app/option_list.h"

#include <strings.h>

#include <cctype>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdlib>

#include "engine/app/nearest.h"
#include "engine/app/options.h"
#include "engine/app/size.h"
#include "engine/core/error.h"

namespace busbw {
namespace {

[[noreturn]] void refuse(const Given& given, const std::string& expected) {
  throw Error(ExitCode::bad_arguments, shown(given.option) + " takes " + expected + ", not '" + given.value + "'");
}

// As C writes it: decimal, 0x hexadecimal or 0 octal, which is what nccl-tests reads.
int whole(const Given& given, int low, int high = INT_MAX) {
  errno = 0;
  char* rest = nullptr;
  const long number = std::strtol(given.value.c_str(), &rest, 0);
  const bool is_number = !given.value.empty() && *rest == '\0' && errno == 0;
  if (!is_number || number < low || number > high)
    refuse(given, high == INT_MAX ? format("a whole number from %d on", low)
                                  : format("a whole number from %d to %d", low, high));
  return static_cast<int>(number);
}

bool yes(const Given& given) { return whole(given, 0) != 0; }

// Names that other tools give these types.
std::string_view usual_name(std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> aliases[] = {
      {"float16", "half"},  {"fp16", "half"},  {"f16", "half"},       {"float32", "float"}, {"fp32", "float"},
      {"f32", "float"},     {"int", "int32"},  {"float64", "double"}, {"fp64", "double"},   {"f64", "double"},
      {"bf16", "bfloat16"}, {"fp8", "f8e4m3"}, {"float8", "f8e4m3"},  {"char", "int8"},
  };
  for (const auto& [alias, name] : aliases)
    if (word == alias) return name;
  return {};
}

void set_types(Plan& plan, const Given& given) {
  plan.all_types = given.value == "all";
  if (plan.all_types) {
    plan.types.assign(all_data_types.begin(), all_data_types.end());
    return;
  }
  if (const auto type = data_type_named(given.value)) {
    plan.types = {*type};
    return;
  }
  std::vector<std::string_view> names;
  for (const DataType type : all_data_types) names.push_back(name(type));
  names.push_back("all");
  const std::string_view usual = usual_name(given.value);
  throw Error(ExitCode::bad_arguments,
              shown(given.option) + " does not know the type '" + given.value + "'" +
                  (usual.empty() ? did_you_mean(given.value, names) : "; did you mean " + std::string(usual) + "? ") +
                  "The types are " + listed(names));
}

void set_ops(Plan& plan, const Given& given) {
  plan.all_ops = given.value == "all";
  if (plan.all_ops) {
    plan.ops.assign(all_red_ops.begin(), all_red_ops.end());
    return;
  }
  if (const auto op = red_op_named(given.value)) {
    plan.ops = {*op};
    return;
  }
  std::vector<std::string_view> names;
  for (const RedOp op : all_red_ops) names.push_back(name(op));
  names.push_back("all");
  throw Error(ExitCode::bad_arguments, shown(given.option) + " does not know the operation '" + given.value + "'" +
                                           did_you_mean(given.value, names) + "The operations are " + listed(names));
}

// nccl-tests documents `all` but reads it as 0; -1 is what loops over all roots there.
void set_root(Plan& plan, const Given& given) {
  plan.all_roots = given.value == "all" || given.value == "-1";
  if (plan.all_roots) {
    plan.root = 0;
    return;
  }
  if (given.value.starts_with('-') || given.value.empty() || !std::isdigit(static_cast<unsigned char>(given.value[0])))
    refuse(given, "a rank from 0 on, or all");
  plan.root = whole(given, 0);
}

void set_json_path(Plan& plan, const Given& given) {
  const std::string& path = given.value;
  constexpr std::size_t suffix = 5;  // .json
  if (path.size() <= suffix || strcasecmp(path.c_str() + path.size() - suffix, ".json") != 0)
    refuse(given, "a path that ends in .json (nccl-tests writes nothing to any other)");
  plan.json_path = path;
}

void set_record_path(Plan& plan, const Given& given) {
  if (given.value.empty() || given.value == "-")
    refuse(given, "the path of a file: standard output belongs to the table");
  plan.record_path = given.value;
}

void set_device_implementation(Plan& plan, const Given& given) {
  plan.device_implementation = whole(given, 0);
  if (plan.device_implementation > 0)
    throw Error(ExitCode::not_implemented,
                shown(given.option) +
                    " asks for a kernel of nccl-tests' own, which busbw does not have; leave it out to "
                    "measure the library's collective");
}

void set_device_cta_count(Plan& plan, const Given& given) {
  const int count = whole(given, INT_MIN);
  constexpr int most = 128;
  plan.device_cta_count = count >= 1 && count <= most ? count : 16;
  if (count != plan.device_cta_count)
    plan.warnings.push_back(format("-V takes 1 to %d, not %d; 16 is used", most, count));
}

void set_per_iteration(Plan& plan, const Given& given) {
  const int value = whole(given, INT_MIN);
  plan.per_iteration = value == 1;
  if (value != 0 && value != 1)
    plan.warnings.push_back(format("-I takes 0 or 1, not %d; no per-iteration times are reported", value));
}

double real(const Given& given, const std::string& text, const std::string& expected) {
  char* rest = nullptr;
  const double number = std::strtod(text.c_str(), &rest);
  if (rest == text.c_str() || *rest != '\0' || !std::isfinite(number)) refuse(given, expected);
  return number;
}

void set_precision(Plan& plan, const Given& given) {
  const std::string expected = "a part such as 1% or 0.01, above 0 and up to 50%";
  std::string text = given.value;
  const bool percent = text.ends_with('%');
  if (percent) text.pop_back();
  while (percent && text.ends_with(' ')) text.pop_back();
  const double part = real(given, text, expected) / (percent ? 100 : 1);
  if (!(part > 0 && part <= 0.5)) refuse(given, expected);
  plan.precision = part;
}

void set_max_seconds(Plan& plan, const Given& given) {
  const std::string expected = "a number of seconds above 0";
  plan.max_seconds = real(given, given.value, expected);
  if (!(plan.max_seconds > 0)) refuse(given, expected);
}

void set_run_id(Plan& plan, const Given& given) {
  constexpr std::size_t longest = 200;
  for (const char c : given.value)
    if (!std::isgraph(static_cast<unsigned char>(c))) refuse(given, "a name without blanks");
  if (given.value.empty() || given.value.size() > longest) refuse(given, format("a name of 1 to %zu letters", longest));
  plan.run_id = given.value;
}

void set_split(Plan& plan, const Given& given) {
  split_colour(given.value, 0);  // throws where it cannot be read
  plan.split = given.value;
}

void set_affinity(Plan& plan, const Given& given) {
  if (given.value != "near" && given.value != "none") refuse(given, "near or none");
  plan.near_gpu = given.value == "near";
}

void set_library(Plan& plan, const Given& given) {
  if (given.value.empty()) refuse(given, "a path, or one of busbw, cpu, auto, system, torch and wheel");
  plan.library = given.value;
}

using G = OptionGroup;
using P = Plan&;
using V = const Given&;

std::vector<Option> make_options() {
  return {
      {'b', "minbytes", "SIZE", "32M", "first size: a number of bytes, with K, M or G for powers of 1024", G::sizes,
       false, [](P p, V v) { p.sizes.first = parse_size(v.value); }},
      {'e', "maxbytes", "SIZE", "32M", "last size, inclusive", G::sizes, false,
       [](P p, V v) { p.sizes.last = parse_size(v.value); }},
      {'i', "stepbytes", "SIZE", "1M", "bytes added from one size to the next", G::sizes, false,
       [](P p, V v) { p.sizes.step = parse_size(v.value); }},
      {'f', "stepfactor", "N", "1, off", "multiply from one size to the next; above 1 it wins over -i", G::sizes, false,
       [](P p, V v) { p.sizes.factor = whole(v, 0); }},

      {'d', "datatype", "TYPE", "float",
       "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all", G::what, false, set_types},
      {'o', "op", "OP", "sum", "reduction: sum prod max min avg mulsum all", G::what, false, set_ops},
      {'r', "root", "RANK", "0", "root rank, or all", G::what, false, set_root},
      {'u', "unalign", "N", "0", "shift both buffers by N elements", G::what, false,
       [](P p, V v) { p.unaligned_elements = static_cast<std::size_t>(whole(v, 0)); }},
      {'R', "local_register", "0..2", "0", "register buffers with the library: 1 locally, 2 as symmetric windows",
       G::what, false, [](P p, V v) { p.registration = static_cast<Registration>(whole(v, 0, 2)); }},
      {'x', "cta_policy", "0..2", "unset", "policy of the communicator: 0 default, 1 efficiency, 2 zero CTA", G::what,
       false, [](P p, V v) { p.cta_policy = whole(v, 0, 2); }},
      {'D', "device_implementation", "N", "0", "kernels of nccl-tests' own; only 0, the library's, is there", G::what,
       false, set_device_implementation},
      {'V', "device_cta_count", "N", "16", "thread blocks of a -D kernel, 1 to 128; taken, without effect", G::what,
       false, set_device_cta_count},

      {'t', "nthreads", "N", "1", "host threads per process", G::ranks, false,
       [](P p, V v) { p.threads = whole(v, 1, 1024); }},
      {'g', "ngpus", "N", "1", "devices per thread: GPUs, or ranks of the CPU library", G::ranks, false,
       [](P p, V v) { p.devices = whole(v, 1, 1024); }},
      {'p', "parallel_init", "0|1", "0", "1: each thread makes its own communicators and buffers", G::ranks, false,
       [](P p, V v) { p.parallel_init = yes(v); }},
      {0, "split", "OP N", "",
       "one communicator per colour: rank AND, OR, MOD or DIV N, as \"MOD 2\"; else "
       "NCCL_TESTS_SPLIT_MASK or NCCL_TESTS_SPLIT",
       G::ranks, true, set_split},
      {0, "affinity", "WHERE", "near",
       "near: threads run on the processors near their GPU, unless the launcher has bound them; none: anywhere",
       G::ranks, true, set_affinity},

      {'n', "iters", "N", "20", "timed iterations", G::how_often, false, [](P p, V v) { p.iterations = whole(v, 1); }},
      {'m', "agg_iters", "N", "1", "operations inside one NCCL group per iteration", G::how_often, false,
       [](P p, V v) { p.aggregated = whole(v, 1); }},
      {'w', "warmup_iters", "N", "1", "untimed iterations of each doubled size, before the first row", G::how_often,
       false, [](P p, V v) { p.warmup_iterations = whole(v, 0); }},
      {'N', "run_cycles", "N", "1", "repeat the whole sweep; 0 is for ever", G::how_often, false,
       [](P p, V v) { p.cycles = whole(v, 0); }},
      {0, "precision", "PART", "", "keep sampling until the 95 % interval of the median is this narrow: 1% or 0.01",
       G::how_often, true, set_precision},
      {0, "max-seconds", "S", "10", "longest sampling of one row under --precision", G::how_often, true,
       set_max_seconds},

      {'z', "blocking", "0..3", "0",
       "1: wait and barrier after each operation; 2: wait only; 3: wait and barrier after each iteration, "
       "barrier not timed",
       G::timing, false, [](P p, V v) { p.blocking = static_cast<Blocking>(whole(v, 0, 3)); }},
      {'y', "stream_null", "0|1", "0", "1: use the null stream", G::timing, false,
       [](P p, V v) { p.null_stream = yes(v); }},
      {'G', "cudagraph", "N", "0, off", "capture the iterations in a CUDA graph and replay it N times", G::timing,
       false, [](P p, V v) { p.graph_launches = whole(v, 0); }},
      {'a', "average", "0..3", "1", "combine the times of all ranks: 0 rank 0, 1 mean, 2 min, 3 max", G::timing, false,
       [](P p, V v) { p.average = static_cast<Average>(whole(v, 0, 3)); }},
      {'T', "timeout", "S", "0, off", "give up after S seconds of waiting", G::timing, false,
       [](P p, V v) { p.timeout_seconds = whole(v, 0); }},

      {'c', "check", "N", "1", "passes of checking per row and placement; 0: none", G::checking, false,
       [](P p, V v) { p.checks = whole(v, 0); }},

      {'C', "report_cputime", "0|1", "0", "1: the time column shows the time to launch", G::output, false,
       [](P p, V v) { p.report_cpu_time = yes(v); }},
      {'S', "report_timestamps", "0|1", "0", "1: end each row with the local time", G::output, false,
       [](P p, V v) { p.report_timestamps = yes(v); }},
      {'I', "per_iter_timing", "0|1", "0", "1: add minimum, maximum, p99 and variation of the single iterations",
       G::output, false, set_per_iteration},
      {'K', "per_iter_skip", "N", "0", "leave the first N iterations out of what -I shows", G::output, false,
       [](P p, V v) { p.per_iteration_skip = whole(v, INT_MIN); }},
      {'M', "memory", "0|1", "0", "1: a line on memory at the end", G::output, false,
       [](P p, V v) { p.report_memory = yes(v); }},
      {'J', "output_file", "FILE", "", "write nccl-tests' JSON to FILE, which ends in .json", G::output, false,
       set_json_path},
      {0, "full-environment", "", "", "let -J store every variable of the environment, secrets included", G::output,
       true, [](P p, V) { p.full_environment = true; }},
      {0, "record", "FILE", "", "write a record of the run to FILE, a JSON line per case", G::output, true,
       set_record_path},
      {0, "run-id", "NAME", "BUSBW_RUN_ID, or made up", "name of the run in the record", G::output, true, set_run_id},
      {0, "context", "", "", "a line below each row: the GPUs' clocks, temperature, power and traffic", G::output, true,
       [](P p, V) { p.show_context = true; }},
      {0, "progress", "", "", "say on stderr what is being measured", G::output, true,
       [](P p, V) { p.progress = true; }},

      {0, "library", "WHICH", "auto",
       "library to measure: a path to one with NCCL's functions; system, torch or wheel, an NCCL found there; busbw, "
       "our own GPU collectives before the NCCL that auto finds; cpu, those for this machine's processors; auto",
       G::library, true, set_library},

      {'h', "help", "", "", "this text", G::other, false, nullptr},
      {0, "version", "", "", "the version of this program", G::other, true, nullptr},
  };
}

}  // namespace

const std::vector<Option>& options() {
  static const std::vector<Option> list = make_options();
  return list;
}

std::string shown(const Option& option) {
  const std::string name = "--" + std::string(option.name);
  return option.letter ? format("-%c (%s)", option.letter, name.c_str()) : name;
}

}  // namespace busbw
