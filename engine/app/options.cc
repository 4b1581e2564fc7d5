// Reads a command line as getopt_long does, over the one list of options, and checks what options mean together.
#include "engine/app/options.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/app/help.h"
#include "engine/app/nearest.h"
#include "engine/app/option_list.h"
#include "engine/app/size.h"
#include "engine/collectives/collective.h"
#include "engine/core/error.h"
#include "engine/core/version.h"

namespace busbw {
namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ExitCode::bad_arguments, sentence); }

std::string base_name(std::string_view path) { return std::string(path.substr(path.find_last_of('/') + 1)); }

// Fewer than five samples a side have no interval; nccl-tests' programs make one batch, and so do those named like
// them.
constexpr int plain_batches = 6;

// all_reduce of all_reduce, all-reduce, all_reduce_perf and all_reduce_perf_mpi; empty for anything else.
std::string collective_of(std::string word) {
  std::replace(word.begin(), word.end(), '-', '_');
  for (const std::string_view suffix : {"_mpi", "_perf"})
    if (word.ends_with(suffix)) word.resize(word.size() - suffix.size());
  const auto& names = collective_names();
  return std::find(names.begin(), names.end(), word) != names.end() ? word : std::string();
}

// --row-budget and --row_budget are the same.
bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '-' ? '_' : x) == (y == '-' ? '_' : y); });
}

bool starts(std::string_view name, std::string_view prefix) {
  return name.size() >= prefix.size() && same_letters(name.substr(0, prefix.size()), prefix);
}

const Option& option_with_letter(char letter) {
  for (const Option& option : options())
    if (option.letter == letter) return option;
  refuse(format("there is no option '-%c'; --help lists them all", letter));
}

// A name of the last release, said with the one of today.
const Option* option_formerly(std::string_view word) {
  for (const OldName& old : old_names()) {
    if (!same_letters(old.name, word)) continue;
    std::fprintf(stderr, "busbw: --%s is now --%s; the old name goes with the next release\n",
                 std::string(old.name).c_str(), std::string(old.now).c_str());
    for (const Option& option : options())
      if (option.name == old.now) return &option;
  }
  return nullptr;
}

const Option& option_named(std::string_view word) {
  std::vector<const Option*> matches;
  if (const Option* option = option_formerly(word)) return *option;
  for (const Option& option : options()) {
    if (same_letters(option.name, word)) return option;
    if (starts(option.name, word)) matches.push_back(&option);
  }
  // A prefix that is unique among nccl-tests' names keeps its meaning, whatever names we add.
  std::vector<const Option*> theirs;
  std::copy_if(matches.begin(), matches.end(), std::back_inserter(theirs), [](const Option* o) { return !o->ours; });
  if (!theirs.empty()) matches = theirs;
  if (matches.size() == 1) return *matches.front();
  std::vector<std::string_view> names;
  for (const Option* match : matches) names.push_back(match->name);
  if (!names.empty()) refuse("option '--" + std::string(word) + "' is the beginning of several: " + listed(names));
  for (const std::string_view outer : outer_options())
    if (same_letters(outer, word))
      refuse("--" + std::string(word) +
             " starts ranks or keeps runs, which is done by `busbw COLLECTIVE` and `busbw run`");
  for (const Option& option : options()) names.push_back(option.name);
  for (const std::string_view outer : outer_options()) names.push_back(outer);
  const std::string meant = nearest(word, names);
  refuse("there is no option '--" + std::string(word) + "'; " +
         (meant.empty() ? "--help lists them all" : "did you mean --" + meant + "?"));
}

// The words of a command line, taken one option at a time in the order given, as getopt_long reads them.
class Words {
 public:
  explicit Words(const std::vector<std::string>& words) : words_(words) {}

  std::optional<Given> next() {
    if (!letters_.empty()) return of_letter();
    if (at_ == words_.size()) return std::nullopt;
    const std::string& word = words_[at_++];
    if (word.starts_with("--") && word.size() > 2) return of_name(std::string_view(word).substr(2));
    if (word.starts_with('-') && word.size() > 1 && word != "--") {
      letters_ = std::string_view(word).substr(1);
      return of_letter();
    }
    if (word == "--" && at_ == words_.size()) return std::nullopt;
    const std::string& stray = word == "--" ? words_[at_] : word;
    refuse("'" + stray + "' is no option, and nothing else is expected; write options as -b 8 or --minbytes 8");
  }

 private:
  Given of_letter() {
    const Option& option = option_with_letter(letters_.front());
    letters_.remove_prefix(1);
    if (option.value.empty()) return {option, {}};
    if (letters_.empty()) return {option, following(option)};
    return {option, std::string(std::exchange(letters_, {}))};
  }

  Given of_name(std::string_view word) {
    const std::size_t equals = word.find('=');
    const Option& option = option_named(word.substr(0, equals));
    if (option.value.empty() && equals != word.npos) refuse(shown(option) + " takes no value");
    if (option.value.empty()) return {option, {}};
    if (equals != word.npos) return {option, std::string(word.substr(equals + 1))};
    return {option, following(option)};
  }

  const std::string& following(const Option& option) {
    if (at_ == words_.size()) refuse(shown(option) + " needs a value: " + std::string(option.value));
    return words_[at_++];
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  std::string_view letters_;  // what is left of a word such as -b8
};

void check_per_iteration(Plan& plan) {
  if (plan.per_iteration && plan.graph_launches > 0) {
    plan.warnings.push_back("-I cannot see inside a CUDA graph (-G); no per-iteration times are reported");
    plan.per_iteration = false;
  }
  if (plan.per_iteration_skip == 0) return;
  const bool usable = plan.per_iteration && plan.per_iteration_skip > 0 && plan.per_iteration_skip < plan.iterations;
  if (usable) return;
  plan.warnings.push_back(plan.per_iteration ? format("-K takes 0 to %d with -n %d, not %d; nothing is left out",
                                                      plan.iterations - 1, plan.iterations, plan.per_iteration_skip)
                                             : "-K has no effect without -I");
  plan.per_iteration_skip = 0;
}

void check_together(Plan& plan) {
  sizes_of(plan.sizes);  // throws where the sweep is empty or endless
  if (plan.blocking == Blocking::outer && plan.graph_launches > 0) {
    plan.warnings.push_back("-z 3 cannot be used with a CUDA graph (-G); -z 0 is used");
    plan.blocking = Blocking::none;
  }
  check_per_iteration(plan);
}

// A mask is the operation AND; it wins over NCCL_TESTS_SPLIT.
std::string split_of(const ReadVariable& read_variable) {
  const char* mask = read_variable("NCCL_TESTS_SPLIT_MASK");
  if (mask && *mask) {
    std::string digits = mask;
    if (digits.starts_with("0x") || digits.starts_with("0X")) digits.erase(0, 2);
    if (digits.empty() || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos || digits.size() > 16)
      refuse("NCCL_TESTS_SPLIT_MASK takes a hexadecimal number such as 0x7, not '" + std::string(mask) + "'");
    return "AND 0x" + digits;
  }
  const char* split = read_variable("NCCL_TESTS_SPLIT");
  if (!split || !*split) return {};
  split_colour(split, 0);
  return split;
}

void take_defaults(Plan& plan, const ReadVariable& read_variable) {
  if (plan.split.empty()) plan.split = split_of(read_variable);
  const char* run_id = read_variable("BUSBW_RUN_ID");
  if (plan.run_id.empty() && run_id) plan.run_id = run_id;
}

std::string version_text(const std::string& program) {
  return program + " of busbw " + version + ", with the options and the table of nccl-tests 2.19.6\n";
}

Command parse_options(Plan plan, const std::string& called_as, const ReadVariable& read_variable) {
  Words words(plan.arguments);
  while (const std::optional<Given> given = words.next()) {
    if (given->option.name == "help") return {.kind = Command::Kind::help, .plan = {}, .text = usage(called_as)};
    if (given->option.name == "version")
      return {.kind = Command::Kind::version, .plan = {}, .text = version_text(called_as)};
    given->option.apply(plan, *given);
  }
  check_together(plan);
  take_defaults(plan, read_variable);
  return {.kind = Command::Kind::measure, .plan = std::move(plan), .text = {}};
}

struct Token {
  char op = 0;  // & | % /
  std::string_view number;
};

Token split_token(std::string_view text) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  constexpr std::pair<std::string_view, char> names[] = {{"AND", '&'}, {"OR", '|'}, {"MOD", '%'}, {"DIV", '/'},
                                                         {"&", '&'},   {"|", '|'},  {"%", '%'},   {"/", '/'}};
  for (const auto& [name, op] : names) {
    const bool found = text.size() >= name.size() &&
                       std::equal(name.begin(), name.end(), text.begin(),
                                  [](char a, char b) { return a == std::toupper(static_cast<unsigned char>(b)); });
    if (!found) continue;
    text.remove_prefix(name.size());
    while (!text.empty() && blank(text.front())) text.remove_prefix(1);
    return {op, text};
  }
  return {};
}

// Decimal, 0x hexadecimal, 0b binary or 0 octal; nothing for anything else.
std::optional<std::uint64_t> based_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) base = 16;
  if (text.starts_with("0b") || text.starts_with("0B")) base = 2;
  if (base != 10) text.remove_prefix(2);
  if (base == 10 && text.size() > 1 && text.front() == '0') base = 8;
  if (text.empty() || !std::isalnum(static_cast<unsigned char>(text.front()))) return std::nullopt;
  const std::string digits(text);
  errno = 0;
  char* rest = nullptr;
  const std::uint64_t number = std::strtoull(digits.c_str(), &rest, base);
  if (*rest != '\0' || errno != 0) return std::nullopt;
  return number;
}

}  // namespace

const char* process_environment(const char* name) { return std::getenv(name); }

bool stands_in(const char* argv0) { return argv0 != nullptr && !collective_of(base_name(argv0)).empty(); }

Command parse_command_line(int argc, const char* const* argv, const ReadVariable& read_variable) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  std::string program = argc > 0 ? base_name(argv[0]) : "busbw-engine";
  Plan plan;
  plan.collective = collective_of(program);
  if (!plan.collective.empty()) {
    plan.program = program;
    plan.arguments = std::move(words);
    return parse_options(std::move(plan), program, read_variable);
  }
  const std::string first = words.empty() ? std::string() : words.front();
  if (first == "-h" || first == "--help") return {.kind = Command::Kind::help, .plan = {}, .text = usage(program)};
  if (first == "--version") return {.kind = Command::Kind::version, .plan = {}, .text = version_text(program)};
  plan.collective = collective_of(first);
  if (plan.collective.empty())
    refuse((first.empty() ? "name the collective to measure. "
                          : "'" + first + "' is no collective" + did_you_mean(first, collective_names())) +
           "The collectives are " + listed(collective_names()));
  plan.program = plan.collective + "_perf";
  plan.batches = plain_batches;
  plan.arguments.assign(words.begin() + 1, words.end());
  return parse_options(std::move(plan), program + " " + plan.collective, read_variable);
}

void check_ranks(const Plan& plan, int ranks) {
  const std::unique_ptr<Collective> collective = make_collective(plan.collective);
  if (collective && collective->rooted() && plan.root >= ranks)
    refuse(format("the root (-r) is rank %d, but the communicator has ranks 0 to %d", plan.root, ranks - 1));
}

std::optional<double> required_busbw(const ReadVariable& read_variable) {
  const char* text = read_variable("NCCL_TESTS_MIN_BW");
  if (!text || !*text) return std::nullopt;
  char* rest = nullptr;
  const double required = std::strtod(text, &rest);
  if (rest == text || *rest != '\0' || !std::isfinite(required) || required < 0)
    refuse("NCCL_TESTS_MIN_BW takes a bandwidth in GB/s such as 200, not '" + std::string(text) + "'");
  return required;
}

int split_colour(std::string_view split, int world_rank) {
  if (split.empty()) return 0;
  const Token token = split_token(split);
  const std::optional<std::uint64_t> number = based_number(token.number);
  const auto invalid = [&](const std::string& why) {
    refuse("the split '" + std::string(split) + "' " + why + "; write AND, OR, MOD or DIV and a number, such as MOD 2");
  };
  if (token.op == 0 || !number) invalid("cannot be read");
  if (*number == 0 && (token.op == '%' || token.op == '/')) invalid("divides by zero");
  if (token.op == '|' && *number > INT32_MAX) invalid("gives no colour below 2147483648");
  const auto rank = static_cast<std::uint64_t>(world_rank);
  switch (token.op) {
    case '&':
      return static_cast<int>(rank & *number);
    case '|':
      return static_cast<int>(rank | *number);
    case '%':
      return static_cast<int>(rank % *number);
    default:
      return static_cast<int>(rank / *number);
  }
}

}  // namespace busbw
