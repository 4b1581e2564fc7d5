// The command line of the stress run.
#include "library/tests/gpu/stress/options.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>

#include "engine/app/size.h"
#include "engine/core/error.h"

namespace busbw::stress {
namespace {

std::uint64_t whole_number(const std::string& name, const std::string& text, std::uint64_t most) {
  char* rest = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text.c_str(), &rest, 10);
  if (text.empty() || text[0] == '-' || *rest != '\0' || errno != 0 || value > most)
    throw Error(ExitCode::bad_arguments, format("%s takes a whole number up to %llu, not '%s'", name.c_str(),
                                                static_cast<unsigned long long>(most), text.c_str()));
  return value;
}

double seconds_of(const std::string& name, const std::string& text) {
  char* rest = nullptr;
  const double value = std::strtod(text.c_str(), &rest);
  if (text.empty() || *rest != '\0' || !(value >= 0))
    throw Error(ExitCode::bad_arguments, format("%s takes seconds, not '%s'", name.c_str(), text.c_str()));
  return value;
}

using Setter = std::function<void(Options&, const std::string& name, const std::string& value)>;

Setter number(int Options::* member, int least, int most) {
  return [=](Options& options, const std::string& name, const std::string& value) {
    const auto found = static_cast<int>(whole_number(name, value, static_cast<std::uint64_t>(most)));
    if (found < least)
      throw Error(ExitCode::bad_arguments, format("%s takes %d to %d, not %d", name.c_str(), least, most, found));
    options.*member = found;
  };
}

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> all = {
      {"--library", [](Options& o, const std::string&, const std::string& v) { o.library = v; }},
      {"--memory", [](Options& o, const std::string&, const std::string& v) { o.memory = v; }},
      {"--collectives", [](Options& o, const std::string&, const std::string& v) { o.collectives = v; }},
      {"--result", [](Options& o, const std::string&, const std::string& v) { o.result = v; }},
      {"--calls",
       [](Options& o, const std::string& n, const std::string& v) { o.calls = whole_number(n, v, 1ULL << 40); }},
      {"--seed",
       [](Options& o, const std::string& n, const std::string& v) { o.seed = whole_number(n, v, 1ULL << 62); }},
      {"--largest", [](Options& o, const std::string&, const std::string& v) { o.largest = parse_size(v).count; }},
      {"--threads", number(&Options::threads, 1, 64)},
      {"--devices", number(&Options::devices, 1, 64)},
      {"--communicators", number(&Options::communicators, 1, 16)},
      {"--streams", number(&Options::streams, 1, 16)},
      {"--graphs", number(&Options::graphs, 0, 16)},
      {"--timeout", number(&Options::timeout_seconds, 1, 3600)},
      {"--seconds", [](Options& o, const std::string& n, const std::string& v) { o.seconds = seconds_of(n, v); }},
  };
  return all;
}

const std::map<std::string, bool Options::*>& flags() {
  static const std::map<std::string, bool Options::*> all = {{"--overlap", &Options::overlap},
                                                             {"--restless", &Options::restless},
                                                             {"--trust-library", &Options::trust_library},
                                                             {"--windows", &Options::windows}};
  return all;
}

}  // namespace

const char* const usage =
    "busbw_stress --library FILE [options]: random collectives, each result checked, through any library with the\n"
    "NCCL API. Started once, or as several processes by busbw run, mpirun or torchrun.\n"
    "\n"
    "  --calls N           how many (100000)          --seed N        of everything that is drawn (1)\n"
    "  --seconds S         stop earlier               --timeout S     of one wait (30)\n"
    "  --threads N         per process (1)            --devices N     per thread, in groups (1)\n"
    "  --communicators N   (3)                        --streams N     (3)\n"
    "  --graphs N          CUDA graphs kept (3)       --largest SIZE  of a buffer (16M)\n"
    "  --collectives A,B   of those that the engine measures\n"
    "  --memory WHERE      host, gpu, or auto: as the library's name says\n"
    "  --overlap           several communicators in flight at once on different streams\n"
    "  --restless          streams and communicators come and go, graphs are launched between other calls\n"
    "  --windows           every other output in a symmetric window\n"
    "  --trust-library     a lost rank is for the library to notice\n"
    "  --result FILE       a summary in JSON\n"
    "\n"
    "Exit codes are the engine's: 7 is a wrong result, 3 an error of the library, 4 a wait that took too long.\n";

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Options parse_options(int argc, char** argv, bool& help) {
  Options options;
  help = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--help" || word == "-h") {
      help = true;
      return options;
    }
    if (const auto flag = flags().find(word); flag != flags().end()) {
      options.*flag->second = true;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto setter = setters().find(name);
    if (setter == setters().end())
      throw Error(ExitCode::bad_arguments, "there is no option " + name + "; --help lists them");
    if (equals == std::string::npos && i + 1 >= argc) throw Error(ExitCode::bad_arguments, name + " needs a value");
    setter->second(options, name, equals == std::string::npos ? std::string(argv[++i]) : word.substr(equals + 1));
  }
  if (options.library.empty())
    throw Error(ExitCode::bad_arguments, "--library is missing: the file whose collectives are to be tried");
  if (options.memory != "auto" && options.memory != "host" && options.memory != "gpu")
    throw Error(ExitCode::bad_arguments, "--memory takes host, gpu or auto, not '" + options.memory + "'");
  if (options.restless && (options.trust_library || options.overlap))
    throw Error(ExitCode::bad_arguments, "--restless goes with neither --trust-library nor --overlap");
  if (options.largest < 64) throw Error(ExitCode::bad_arguments, "--largest takes at least 64 bytes");
  return options;
}

}  // namespace busbw::stress
