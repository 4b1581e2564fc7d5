// A stand-in for NCCL that loads a tuner plugin as NCCL does, and whose calls take what a planted model says: over our
// CPU library, which moves the data. It obeys NCCL_ALGO, NCCL_PROTO and NCCL_MAX_NCHANNELS, so that bad settings cost
// time.
//
//   NCCL_TUNER_PLUGIN       the plugin's path
//   BUSBW_TEST_OWN_CHOICE   what it takes by itself, such as ring/ll; else the best by its model
//   BUSBW_TEST_UNIT_US      microseconds of one unit of the model (default 0: no call is delayed)
//   BUSBW_TEST_SAY          a file to which each new choice is appended
//
// A copy of the file whose last line is `busbw-test-release VERSION MICROSECONDS FROM_BYTES TO_BYTES` is another
// release of it: it reports that version (22809), and calls of those sizes take so much longer.
#include <dlfcn.h>
#include <strings.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "library/tuner/nccl_tuner_abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace busbw::tuner;

constexpr const char* algorithm_names[] = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                           "nvls_tree", "pat"};
constexpr const char* protocol_names[] = {"ll", "ll128", "simple"};

template <class Function>
Function* real(const char* name) {
  static void* library = dlopen(BUSBW_TEST_CPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define REAL(name) real<name##_t>(#name)

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void log_line(LogLevel level, unsigned long, const char*, int, const char* format, ...) {
  const std::string debug = setting("NCCL_DEBUG");
  if (debug != "INFO" && (debug != "WARN" || level != log_warn)) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "stand-in NCCL %s %s\n", level == log_warn ? "WARN" : "INFO", text);
}

// The model, in units: latency, and units for each MiB over one channel, of the ways that work on one node of it.
double units(int algorithm, int protocol, int channels, std::size_t bytes) {
  const double latency = (algorithm == algo_tree ? 1.0 : 2.0) * (protocol == proto_ll      ? 1.0
                                                                 : protocol == proto_ll128 ? 1.5
                                                                                           : 3.0);
  const double each = protocol == proto_ll ? 8.0 : protocol == proto_ll128 ? 3.0 : 2.0;
  const double work = double(bytes) / double(1 << 20) * each * (algorithm == algo_tree ? 1.5 : 1.0);
  return latency + 0.1 * channels + work / channels;
}

struct Communicator {
  ncclComm_t real = nullptr;
  const TunerV6* tuner = nullptr;
  void* context = nullptr;
};
std::mutex mutex;
std::map<ncclComm_t, Communicator> communicators;

void say(const std::string& line) {
  static std::set<std::string> said;
  const std::string path = setting("BUSBW_TEST_SAY");
  const std::lock_guard<std::mutex> lock(mutex);
  if (path.empty() || !said.insert(line).second) return;
  if (std::FILE* file = std::fopen(path.c_str(), "a")) {
    std::fputs((line + "\n").c_str(), file);
    std::fclose(file);
  }
}

bool allowed(int algorithm, int protocol) {
  const std::string algo = setting("NCCL_ALGO"), proto = setting("NCCL_PROTO");
  if (algorithm != algo_tree && algorithm != algo_ring) return false;
  return (algo.empty() || strcasecmp(algo.c_str(), algorithm_names[algorithm]) == 0) &&
         (proto.empty() || strcasecmp(proto.c_str(), protocol_names[protocol]) == 0);
}

struct Release {
  int version = 23004;
  double us = 0;
  double first = 0, last = 0;
};

// What the last line of this very file says.
const Release& release() {
  static const Release found = [] {
    Release read;
    Dl_info info{};
    if (!dladdr(reinterpret_cast<void*>(&log_line), &info)) return read;
    if (std::FILE* file = std::fopen(info.dli_fname, "r")) {
      char tail[128] = {};
      std::fseek(file, -64, SEEK_END);
      const std::string text(tail, std::fread(tail, 1, 64, file));
      std::fclose(file);
      const std::size_t at = text.find("busbw-test-release ");
      if (at != std::string::npos) {
        std::sscanf(text.c_str() + at, "busbw-test-release %d %lf %lf %lf", &read.version, &read.us, &read.first,
                    &read.last);
      }
    }
    return read;
  }();
  return found;
}

// As NCCL: its estimates, then the plugin's word on them, then the least.
void delay(ncclComm_t comm, Function function, std::size_t bytes) {
  Communicator here;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    here = communicators[comm];
  }
  const std::string most = setting("NCCL_MAX_NCHANNELS");
  const int own_channels = std::min(most.empty() ? 32 : std::atoi(most.c_str()), std::clamp(int(bytes >> 16), 1, 16));
  float costs[algorithms][protocols];
  for (int row = 0; row < algorithms; ++row) {
    for (int column = 0; column < protocols; ++column) {
      const std::string name = std::string(algorithm_names[row]) + "/" + protocol_names[column];
      costs[row][column] = !allowed(row, column)                      ? cost_ignore
                           : name == setting("BUSBW_TEST_OWN_CHOICE") ? 0.001F
                                                                      : float(units(row, column, own_channels, bytes));
    }
  }
  int channels = 0;
  if (here.tuner) {
    here.tuner->get_coll_info(here.context, function, bytes, 1, reinterpret_cast<float**>(costs), algorithms, protocols,
                              0, &channels);
  }
  int algorithm = algo_ring, protocol = proto_simple;
  float least = 1e30F;
  for (int row = 0; row < algorithms; ++row) {
    for (int column = 0; column < protocols; ++column) {
      if (costs[row][column] == cost_ignore || costs[row][column] >= least) continue;
      least = costs[row][column], algorithm = row, protocol = column;
    }
  }
  channels = channels ? std::min(channels, 32) : own_channels;
  say(std::to_string(function) + " " + std::to_string(bytes) + " " + algorithm_names[algorithm] + "/" +
      protocol_names[protocol] + " " + std::to_string(channels));
  const double unit_us = std::atof(setting("BUSBW_TEST_UNIT_US").c_str());
  const bool slower = double(bytes) >= release().first && double(bytes) <= release().last;
  const double us = unit_us * units(algorithm, protocol, channels, bytes);
  // Asleep, so that what others do on the machine matters little.
  if (slower) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(release().us));
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double, std::micro>(us);
  while (std::chrono::steady_clock::now() < end) {
  }
}

std::size_t size_of(ncclDataType_t type) {
  switch (int(type)) {
    case 2:
    case 3:
    case 7:
      return 4;
    case 4:
    case 5:
    case 8:
      return 8;
    case 6:
    case 9:
      return 2;
    default:
      return 1;
  }
}

std::size_t ranks_of(ncclComm_t comm) {
  int ranks = 1;
  REAL(ncclCommCount)(comm, &ranks);
  return std::size_t(ranks);
}

const TunerV6* plugin() {
  static const TunerV6* found = [] {
    const std::string name = setting("NCCL_TUNER_PLUGIN");
    void* library = name.empty() ? nullptr : dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    return library ? static_cast<const TunerV6*>(dlsym(library, "ncclTunerPlugin_v6")) : nullptr;
  }();
  return found;
}

}  // namespace

EXPORT const char* busbwLibraryName() { return "stand-in for NCCL over the CPU library"; }
EXPORT ncclResult_t ncclGetVersion(int* version) { return *version = release().version, ncclSuccess; }

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (const ncclResult_t result = REAL(ncclCommInitRank)(comm, ranks, id, rank); result != ncclSuccess) return result;
  Communicator made{*comm, plugin(), nullptr};
  if (made.tuner) {
    const ncclResult_t result = made.tuner->init(&made.context, 1, std::size_t(ranks), 1, log_line, nullptr, nullptr);
    if (result != ncclSuccess) return result;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  communicators[*comm] = made;
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ncclCommInitRank(comm, ranks, id, rank);
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    const Communicator gone = communicators[comm];
    communicators.erase(comm);
    if (gone.tuner) gone.tuner->finalize(gone.context);
  }
  return REAL(ncclCommDestroy)(comm);
}
EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, ncclStream_t stream) {
  delay(comm, func_all_reduce, count * size_of(type));
  return REAL(ncclAllReduce)(send, recv, count, type, op, comm, stream);
}
EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                  ncclStream_t stream) {
  delay(comm, func_all_gather, count * size_of(type) * ranks_of(comm));
  return REAL(ncclAllGather)(send, recv, count, type, comm, stream);
}
EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, ncclStream_t stream) {
  delay(comm, func_broadcast, count * size_of(type));
  return REAL(ncclBroadcast)(send, recv, count, type, root, comm, stream);
}

// The rest as it is.
#define AS_IT_IS(name, parameters, arguments) \
  EXPORT ncclResult_t name parameters { return REAL(name) arguments; }
AS_IT_IS(ncclGetUniqueId, (ncclUniqueId * id), (id))
AS_IT_IS(ncclGroupStart, (), ())
AS_IT_IS(ncclGroupEnd, (), ())
AS_IT_IS(ncclCommCount, (ncclComm_t comm, int* count), (comm, count))
AS_IT_IS(ncclCommUserRank, (ncclComm_t comm, int* rank), (comm, rank))
AS_IT_IS(ncclCommCuDevice, (ncclComm_t comm, int* device), (comm, device))
AS_IT_IS(ncclCommFinalize, (ncclComm_t comm), (comm))
AS_IT_IS(ncclCommAbort, (ncclComm_t comm), (comm))
AS_IT_IS(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* error), (comm, error))
EXPORT const char* ncclGetErrorString(ncclResult_t code) { return REAL(ncclGetErrorString)(code); }
EXPORT const char* ncclGetLastError(ncclComm_t comm) { return REAL(ncclGetLastError)(comm); }
