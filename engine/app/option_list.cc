// What each option does to the plan; its names, default, range and meaning come from the table of options.
#include "engine/app/option_list.h"

#include <strings.h>

#include <cctype>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/app/nearest.h"
#include "engine/app/options.h"
#include "engine/app/size.h"
#include "engine/core/error.h"

namespace busbw {
namespace {

[[noreturn]] void refuse(const Given& given, const std::string& expected) {
  throw Error(ExitCode::bad_arguments, shown(given.option) + " takes " + expected + ", not '" + given.value + "'");
}

Bytes size(const Given& given) {
  try {
    return parse_size(given.value);
  } catch (const Error&) {
    refuse(given, "a number of bytes such as 8, 512K, 1.5M or 2G");
  }
}

// As C writes it: decimal, 0x hexadecimal or 0 octal, which is what nccl-tests reads. The table says in which range.
int whole(const Given& given) {
  const auto [low, high] = std::pair(given.option.low, given.option.high);
  errno = 0;
  char* rest = nullptr;
  const long number = std::strtol(given.value.c_str(), &rest, 0);
  const bool is_number = !given.value.empty() && *rest == '\0' && errno == 0;
  if (!is_number || number < low || number > high)
    refuse(given, low == INT_MIN    ? "a whole number"
                  : high == INT_MAX ? format("a whole number from %d on", low)
                                    : format("a whole number from %d to %d", low, high));
  return static_cast<int>(number);
}

bool yes(const Given& given) { return whole(given) != 0; }

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
  plan.root = whole(given);
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
  plan.device_implementation = whole(given);
  if (plan.device_implementation > 0)
    throw Error(ExitCode::not_implemented,
                shown(given.option) +
                    " asks for a kernel of nccl-tests' own, which busbw does not have; leave it out to "
                    "measure the library's collective");
}

void set_device_cta_count(Plan& plan, const Given& given) {
  const int count = whole(given);
  constexpr int most = 128;
  plan.device_cta_count = count >= 1 && count <= most ? count : 16;
  if (count != plan.device_cta_count)
    plan.warnings.push_back(format("-V takes 1 to %d, not %d; 16 is used", most, count));
}

void set_per_iteration(Plan& plan, const Given& given) {
  const int value = whole(given);
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

// 90, 90s, 20m, 2h or HH:MM:SS, as everywhere in busbw.
void set_row_budget(Plan& plan, const Given& given) {
  const std::string expected = "a time above 0, such as 90s, 20m, 2h or HH:MM:SS";
  std::string text = given.value;
  double seconds = 0;
  if (text.find(':') != text.npos) {
    int hours = 0, minutes = 0, rest = 0, used = 0;
    if (std::sscanf(text.c_str(), "%3d:%2d:%2d%n", &hours, &minutes, &rest, &used) != 3 ||
        static_cast<std::size_t>(used) != text.size() || hours < 0 || minutes < 0 || rest < 0)
      refuse(given, expected);
    seconds = (hours * 60.0 + minutes) * 60 + rest;
  } else {
    double unit = 1;
    constexpr std::pair<std::string_view, double> units[] = {{"min", 60}, {"s", 1}, {"m", 60}, {"h", 3600}};
    for (const auto& [suffix, factor] : units)
      if (text.ends_with(suffix)) {
        unit = factor;
        text.resize(text.size() - suffix.size());
        break;
      }
    seconds = real(given, text, expected) * unit;
  }
  if (!(seconds > 0)) refuse(given, expected);
  plan.max_seconds = seconds;
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

void set_beside(Plan& plan, const Given& given) {
  if (!plan.beside) plan.beside.emplace();
  if (given.value == "product") return;
  ProductShape shape;
  int used = 0;
  constexpr int most = 16384;
  const auto fits = [](int side) { return side >= 1 && side <= most; };
  if (std::sscanf(given.value.c_str(), "product:%6dx%6dx%6d%n", &shape.rows, &shape.columns, &shape.inner, &used) !=
          3 ||
      static_cast<std::size_t>(used) != given.value.size() || !fits(shape.rows) || !fits(shape.columns) ||
      !fits(shape.inner))
    refuse(given, format("product, or product:ROWSxCOLUMNSxINNER with sides of 1 to %d", most));
  plan.beside->shape = shape;
}

void set_beside_amounts(Plan& plan, const Given& given) {
  const std::string expected = "BYTES:CALLS:PRODUCTS for each size, with commas between";
  if (!plan.beside) plan.beside.emplace();
  const char* at = given.value.c_str();
  constexpr int most = 1'000'000;
  while (true) {
    BesideAmount amount;
    int used = 0;
    if (std::sscanf(at, "%18zu:%7d:%7d%n", &amount.bytes, &amount.calls, &amount.products, &used) != 3 ||
        amount.calls < 1 || amount.calls > most || amount.products < 1 || amount.products > most)
      refuse(given, expected);
    plan.beside->amounts.push_back(amount);
    at += used;
    if (*at == '\0') return;
    if (*at++ != ',') refuse(given, expected);
  }
}

// What each option of the table does: one that is missing here, or is not in the table, does not compile.
void take_minbytes(Plan& p, const Given& v) { p.sizes.first = size(v); }
void take_maxbytes(Plan& p, const Given& v) { p.sizes.last = size(v); }
void take_stepbytes(Plan& p, const Given& v) { p.sizes.step = size(v); }
void take_stepfactor(Plan& p, const Given& v) { p.sizes.factor = whole(v); }
void take_datatype(Plan& p, const Given& v) { set_types(p, v); }
void take_op(Plan& p, const Given& v) { set_ops(p, v); }
void take_root(Plan& p, const Given& v) { set_root(p, v); }
void take_unalign(Plan& p, const Given& v) { p.unaligned_elements = static_cast<std::size_t>(whole(v)); }
void take_local_register(Plan& p, const Given& v) { p.registration = static_cast<Registration>(whole(v)); }
void take_cta_policy(Plan& p, const Given& v) { p.cta_policy = whole(v); }
void take_device_implementation(Plan& p, const Given& v) { set_device_implementation(p, v); }
void take_device_cta_count(Plan& p, const Given& v) { set_device_cta_count(p, v); }
void take_nthreads(Plan& p, const Given& v) { p.threads = whole(v); }
void take_ngpus(Plan& p, const Given& v) { p.devices = whole(v); }
void take_parallel_init(Plan& p, const Given& v) { p.parallel_init = yes(v); }
void take_split(Plan& p, const Given& v) { set_split(p, v); }
void take_affinity(Plan& p, const Given& v) { set_affinity(p, v); }
void take_iters(Plan& p, const Given& v) { p.iterations = whole(v); }
void take_agg_iters(Plan& p, const Given& v) { p.aggregated = whole(v); }
void take_warmup_iters(Plan& p, const Given& v) { p.warmup_iterations = whole(v); }
void take_run_cycles(Plan& p, const Given& v) { p.cycles = whole(v); }
void take_batches(Plan& p, const Given& v) { p.batches = whole(v); }
void take_beside(Plan& p, const Given& v) { set_beside(p, v); }
void take_beside_amounts(Plan& p, const Given& v) { set_beside_amounts(p, v); }
void take_precision(Plan& p, const Given& v) { set_precision(p, v); }
void take_row_budget(Plan& p, const Given& v) { set_row_budget(p, v); }
void take_blocking(Plan& p, const Given& v) { p.blocking = static_cast<Blocking>(whole(v)); }
void take_stream_null(Plan& p, const Given& v) { p.null_stream = yes(v); }
void take_cudagraph(Plan& p, const Given& v) { p.graph_launches = whole(v); }
void take_average(Plan& p, const Given& v) { p.average = static_cast<Average>(whole(v)); }
void take_timeout(Plan& p, const Given& v) { p.timeout_seconds = whole(v); }
void take_check(Plan& p, const Given& v) { p.checks = whole(v); }
void take_report_cputime(Plan& p, const Given& v) { p.report_cpu_time = yes(v); }
void take_report_timestamps(Plan& p, const Given& v) { p.report_timestamps = yes(v); }
void take_per_iter_timing(Plan& p, const Given& v) { set_per_iteration(p, v); }
void take_per_iter_skip(Plan& p, const Given& v) { p.per_iteration_skip = whole(v); }
void take_memory(Plan& p, const Given& v) { p.report_memory = yes(v); }
void take_output_file(Plan& p, const Given& v) { set_json_path(p, v); }
void take_full_environment(Plan& p, const Given&) { p.full_environment = true; }
void take_record(Plan& p, const Given& v) { set_record_path(p, v); }
void take_run_id(Plan& p, const Given& v) { set_run_id(p, v); }
void take_context(Plan& p, const Given&) { p.show_context = true; }
void take_progress(Plan& p, const Given&) { p.progress = true; }
void take_library(Plan& p, const Given& v) { set_library(p, v); }
void take_help(Plan&, const Given&) {}     // answered before anything is measured
void take_version(Plan&, const Given&) {}  // answered before anything is measured

}  // namespace

#define BUSBW_OPTION(id, letter, name, value, normal, meaning, group, ours, low, high) \
  {letter, name, value, normal, meaning, group, ours, low, high, take_##id},
#define BUSBW_OLD_NAME(name, now)
#define BUSBW_OUTER_OPTION(name)
const std::vector<Option>& options() {
  static const std::vector<Option> list = {
#include "options.inc"
  };
  return list;
}
#undef BUSBW_OPTION
#undef BUSBW_OLD_NAME

#define BUSBW_OPTION(id, letter, name, value, normal, meaning, group, ours, low, high)
#define BUSBW_OLD_NAME(name, now) {name, now},
const std::vector<OldName>& old_names() {
  static const std::vector<OldName> list = {
#include "options.inc"
  };
  return list;
}
#undef BUSBW_OLD_NAME
#undef BUSBW_OUTER_OPTION

#define BUSBW_OLD_NAME(name, now)
#define BUSBW_OUTER_OPTION(name) name,
const std::vector<std::string_view>& outer_options() {
  static const std::vector<std::string_view> list = {
#include "options.inc"
  };
  return list;
}

std::string shown(const Option& option) {
  const std::string name = "--" + std::string(option.name);
  return option.letter ? format("-%c (%s)", option.letter, name.c_str()) : name;
}

}  // namespace busbw
