// Applies a table's rules to the calls of a communicator, where they were measured on what it runs on.
#include "library/tuner/tuner.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "library/common/descriptor.h"
#include "library/tuner/facts.h"
#include "library/tuner/table.h"

namespace busbw::tuner {
namespace {

// Communicators of many shapes have a sentence each, and so has each rule.
constexpr std::size_t max_sentences = 2 * max_rules;

struct Applied {
  Rule rule;
  bool told = false;  // here; the process may have been told by another communicator
};

struct Context {
  Logger logger = nullptr;
  std::string place;  // which table, and for what: another one's rules are told too
  std::array<std::vector<Applied>, functions> rules;
};

std::string setting(const char* name) {
  // Not for a program that runs with another user's rights.
  const char* value = ::secure_getenv(name);
  return value ? value : "";
}

void log(Logger logger, LogLevel level, unsigned long flags, const std::string& sentence) {
  if (logger) logger(level, flags, "busbw", 0, "TUNER/busbw: %s", sentence.c_str());
}

// Once a process: each of its communicators would say the same.
std::mutex saying;
bool is_new(const std::string& sentence) {
  static std::set<std::string> said;
  const std::lock_guard<std::mutex> lock(saying);
  return said.size() < max_sentences && said.insert(sentence).second;
}

void say(Logger logger, LogLevel level, const std::string& sentence) {
  if (is_new(sentence)) log(logger, level, log_init | log_tuning, sentence);
}

std::string table_path() {
  if (std::string named = setting("BUSBW_TUNER_TABLE"); !named.empty()) return named;
  std::string config = setting("XDG_CONFIG_HOME");
  if (config.empty()) config = setting("HOME") + "/.config";
  return config + "/busbw/nccl-tuner.txt";
}

std::string size_of_job(const Place& place) {
  return std::to_string(place.ranks) + (place.ranks == 1 ? " rank" : " ranks") + " on " + std::to_string(place.nodes) +
         (place.nodes == 1 ? " node" : " nodes");
}

// In what a place differs from here, in words; "" where in nothing.
std::string difference(const Place& measured, const Place& here) {
  std::string words;
  const auto compare = [&](const char* what, const std::string& there, const std::string& own) {
    if (there == own && !own.empty()) return;
    words +=
        std::string(words.empty() ? "" : ", ") + what + " " + there + " (here " + (own.empty() ? "unknown" : own) + ")";
  };
  compare("nccl", measured.nccl, here.nccl);
  compare("gpu", measured.gpu, here.gpu);
  compare("driver", measured.driver, here.driver);
  compare("topology", measured.topology, here.topology);
  return words;
}

// A file that is new or regular: a rename by root would put a file in the place of /dev/null.
void write_facts(const std::string& path, const Place& here, Logger logger) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    say(logger, log_warn, path + " of BUSBW_TUNER_FACTS is no regular file; name a new one");
    return;
  }
  // Threads, and processes of several nodes with the same number, write at once: each into a file of its own.
  std::string beside = path + ".XXXXXX";
  const Descriptor file(::mkostemp(beside.data(), O_CLOEXEC));
  const std::string text = "measured\nnccl " + here.nccl + "\ngpu " + here.gpu + "\ndriver " + here.driver +
                           "\ntopology " + here.topology + "\nranks " + std::to_string(here.ranks) + "\nnodes " +
                           std::to_string(here.nodes) + "\n";
  if (!file.valid()) {
    say(logger, log_warn, path + " of BUSBW_TUNER_FACTS cannot be written: " + std::strerror(errno));
    return;
  }
  ::fchmod(file.get(), 0644);
  const bool written =
      may_be_so_long(text.size()) && ::write(file.get(), text.data(), text.size()) == ssize_t(text.size());
  if (!written || std::rename(beside.c_str(), path.c_str()) != 0) ::unlink(beside.c_str());
}

// Nodes cannot ask each other here. Ranks that decide differently wait for each other for ever, so that several nodes
// need somebody's word that they are alike, and a node that is not ends the job at its start.
enum class Word { not_needed, given, missing, other };
Word word_of(const Place& here, const std::string& hash) {
  if (here.nodes <= 1) return Word::not_needed;
  const std::string alike = setting("BUSBW_TUNER_ALIKE");
  return alike.empty() ? Word::missing : alike == hash ? Word::given : Word::other;
}

ncclResult_t apply(Context& context, const Place& here) {
  const std::string path = table_path();
  const auto read = read_table(path.c_str());
  const bool several = here.nodes > 1 && !setting("BUSBW_TUNER_ALIKE").empty();
  if (const std::string* why = std::get_if<std::string>(&read.table)) {
    say(context.logger,
        several                                ? log_warn
        : setting("BUSBW_TUNER_TABLE").empty() ? log_info
                                               : log_warn,
        path + " is not applied: " + *why + "; NCCL decides by itself");
    return several ? ncclInvalidUsage : ncclSuccess;
  }
  const Measured* found = nullptr;
  std::string why = "it has no rules for " + size_of_job(here);
  bool differs = false;
  for (const Measured& each : std::get<Table>(read.table)) {
    if (each.place.ranks != here.ranks || each.place.nodes != here.nodes) continue;
    const std::string words = difference(each.place, here);
    if (words.empty()) {
      found = &each;
      break;
    }
    why = "it was measured with " + words;
    differs = true;
  }
  const Word word = word_of(here, read.hash);
  if (word == Word::other || (word == Word::given && differs && !found)) {
    if (word == Word::other) why = "it is not the one that BUSBW_TUNER_ALIKE names, but " + read.hash;
    say(context.logger, log_warn, path + " cannot be applied, and other nodes may apply theirs: " + why);
    return ncclInvalidUsage;
  }
  if (found && word == Word::missing) {
    found = nullptr;
    why = "several nodes must all have this table and be alike; BUSBW_TUNER_ALIKE=" + read.hash +
          " in the whole job says so";
  }
  if (!found) {
    say(context.logger, log_info, path + " is not applied: " + why + "; NCCL decides by itself");
    return ncclSuccess;
  }
  context.place = path + ", " + size_of_job(here) + ": ";
  for (const Rule& rule : found->rules) context.rules[std::size_t(rule.function)].push_back({rule});
  say(context.logger, log_info,
      path + ": " + std::to_string(found->rules.size()) + (found->rules.size() == 1 ? " rule is" : " rules are") +
          " applied to " + size_of_job(here));
  return ncclSuccess;
}

// What NCCL keeps for a communicator is a number and no address: a host that asks after the end, ends twice or hands
// over what was never a context finds nothing there.
class Contexts {
 public:
  void* add(std::unique_ptr<Context> context) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    live_.emplace(++last_, std::move(context));
    return reinterpret_cast<void*>(last_);  // NOLINT(performance-no-int-to-ptr)
  }
  void remove(void* number) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    live_.erase(std::uintptr_t(number));
    if (live_.empty())
      live_ = decltype(live_)();  // with its own memory: NCCL unloads a plugin after the last communicator
  }
  // Calls `act` with the context, while nobody removes it.
  template <class Act>
  void with(void* number, Act act) {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    const auto found = live_.find(std::uintptr_t(number));
    if (found != live_.end()) act(*found->second);
  }

  // A process that forks takes the locks meanwhile: another thread's would never be given back in the child. There it
  // makes new ones, as it is not the thread that took them.
  void before_fork() {
    mutex_.lock();
    saying.lock();
  }
  void after_fork(bool is_child) {
    if (is_child) {
      new (&saying) std::mutex;
      new (&mutex_) std::shared_mutex;
    } else {
      saying.unlock();
      mutex_.unlock();
    }
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Context>> live_;
  std::uintptr_t last_ = std::uintptr_t(0x6275'7362) << 32;  // no address: user space ends below
};

Contexts& contexts() {
  // Never destroyed: a host may end its communicators while the process exits.
  alignas(Contexts) static std::byte room[sizeof(Contexts)];
  static Contexts* all = [] {
    auto* made = new (room) Contexts;
    // Forgotten when the plugin is unloaded.
    ::pthread_atfork([] { contexts().before_fork(); }, [] { contexts().after_fork(false); },
                     [] { contexts().after_fork(true); });
    return made;
  }();
  return *all;
}

Applied* rule_for(Context& context, Function function, std::size_t bytes) {
  if (function < 0 || function >= functions) return nullptr;
  for (Applied& each : context.rules[std::size_t(function)]) {
    if (each.rule.from <= bytes && bytes <= each.rule.to) return &each;
  }
  return nullptr;
}

// Whether the table holds no algorithm at all: NCCL 2.32 asks so for its symmetric kernels, and then for the others.
bool has_no_algorithm(const float* costs, int rows, int columns) {
  return std::all_of(costs, costs + std::ptrdiff_t(rows) * columns, [](float cost) { return cost < 0.0F; });
}

void tell(Context& context, Applied& applied, bool possible) {
  // Threads may ask for one communicator at once.
  const std::atomic_ref<bool> told(applied.told);
  if (told.load(std::memory_order_relaxed)) return;
  told.store(true, std::memory_order_relaxed);
  const Rule& rule = applied.rule;
  std::string sentence = std::string(name_of(rule.function)) + " of " + std::to_string(rule.from) + " to " +
                         std::to_string(rule.to) + " bytes: ";
  if (!possible) {
    sentence += "NCCL cannot do " + name_of(rule.algorithm, rule.protocol) + " here and decides by itself";
  } else {
    sentence += name_of(rule.algorithm, rule.protocol);
    if (rule.channels) sentence += ", " + std::to_string(rule.channels) + " channels";
  }
  if (is_new(context.place + sentence)) log(context.logger, log_info, log_tuning, sentence);
}

}  // namespace

ncclResult_t begin(void** context, std::size_t ranks, std::size_t nodes, Logger logger) noexcept {
  if (!context) return ncclSuccess;
  *context = nullptr;
  try {
    const Place here = facts(ranks, nodes, logger);
    if (const std::string path = setting("BUSBW_TUNER_FACTS"); !path.empty()) write_facts(path, here, logger);
    auto made = std::make_unique<Context>();
    made->logger = logger;
    const ncclResult_t result = apply(*made, here);
    if (result == ncclSuccess) *context = contexts().add(std::move(made));
    return result;
  } catch (...) {
    return ncclSuccess;  // out of memory: NCCL decides by itself
  }
}

ncclResult_t choose(void* context, Function function, std::size_t bytes, float* costs, int rows, int columns,
                    int* channels) noexcept {
  try {
    if (costs && (rows <= 0 || columns <= 0)) return ncclSuccess;
    contexts().with(context, [&](Context& here) {
      Applied* applied = rule_for(here, function, bytes);
      if (!applied || (costs && has_no_algorithm(costs, rows, columns))) return;
      const Rule& rule = applied->rule;
      bool possible = true;
      if (rule.algorithm != algo_undefined) {
        possible = costs && rule.algorithm < rows && rule.protocol < columns;
        float* cost = possible ? costs + rule.algorithm * columns + rule.protocol : nullptr;
        possible = possible && *cost >= 0.0F;
        if (possible) *cost = 0.0F;
      }
      if (possible && rule.channels && channels) *channels = rule.channels;
      tell(here, *applied, possible);
    });
  } catch (...) {
    return ncclSuccess;
  }
  return ncclSuccess;
}

ncclResult_t choose_chunk(void* context, Function function, std::size_t bytes, int algorithm, int protocol,
                          std::size_t* chunk_bytes) noexcept {
  try {
    contexts().with(context, [&](Context& here) {
      const Applied* applied = rule_for(here, function, bytes);
      if (!applied || !applied->rule.chunk || !chunk_bytes) return;
      const Rule& rule = applied->rule;
      if (rule.algorithm == algo_undefined || (rule.algorithm == algorithm && rule.protocol == protocol)) {
        *chunk_bytes = rule.chunk;
      }
    });
  } catch (...) {
    return ncclSuccess;
  }
  return ncclSuccess;
}

ncclResult_t end(void* context) noexcept {
  try {
    contexts().remove(context);
  } catch (...) {
    return ncclSuccess;
  }
  return ncclSuccess;
}

}  // namespace busbw::tuner
