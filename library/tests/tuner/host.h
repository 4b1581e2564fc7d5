// A host of the tuner plugin: it calls the plugin as NCCL does, in each version of the interface.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "library/tuner/facts.h"
#include "library/tuner/nccl_tuner_abi.h"
#include "library/tuner/table.h"

namespace {

using namespace busbw::tuner;

std::vector<std::string> lines;

void log_line(LogLevel level, unsigned long, const char*, int, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  lines.push_back((level == log_warn ? "WARN " : "INFO ") + std::string(text));
}

int version_code = 22809;

// What NCCL took in the end.
struct Taken {
  int algorithm;
  int protocol;
  int channels;
  bool operator==(const Taken&) const = default;
};
constexpr Taken own_choice{algo_ring, proto_simple, 0};

void PrintTo(const Taken& taken, std::ostream* out) {
  *out << name_of(taken.algorithm, taken.protocol) << " " << taken.channels;
}

// A small host: it loads the plugin and calls it as NCCL does in that version of the interface.
class Host {
 public:
  explicit Host(int version) : version_(version), library_(dlopen(BUSBW_TEST_TUNER, RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) throw std::runtime_error(dlerror());
    plugin_ = dlsym(library_, ("ncclTunerPlugin_v" + std::to_string(version)).c_str());
  }
  ~Host() { dlclose(library_); }

  bool is_there() const { return plugin_ != nullptr; }

  ncclResult_t begin(std::size_t ranks, std::size_t nodes) {
    switch (version_) {
      case 2:
        return as<TunerV2>().init(ranks, nodes, log_line, &context_);
      case 3:
        return as<TunerV3>().init(ranks, nodes, log_line, &context_);
      case 4:
        return as<TunerV4>().init(ranks, nodes, log_line, &context_);
      case 5:
        return as<TunerV5>().init(&context_, 7, ranks, nodes, log_line, nullptr, nullptr);
      default:
        return as<TunerV6>().init(&context_, 7, ranks, nodes, log_line, nullptr, nullptr);
    }
  }

  // As NCCL 2.32 does for its symmetric kernels: a table without any algorithm. Gives the channels that the plugin
  // sets.
  int ask_for_other_kernels(Function function, std::size_t bytes) {
    return ask(function, bytes, {-1, -1, 0}, cost_ignore).channels;
  }

  // `impossible` is an entry that NCCL has left out.
  Taken ask(Function function, std::size_t bytes, Taken impossible = {-1, -1, 0}, float others = 9.0F) {
    float costs[algorithms][protocols];
    for (auto& row : costs) {
      for (float& cost : row) cost = others;
    }
    if (others >= 0) costs[own_choice.algorithm][own_choice.protocol] = 5.0F;
    if (impossible.algorithm >= 0) costs[impossible.algorithm][impossible.protocol] = cost_ignore;
    Taken taken{algo_undefined, proto_undefined, 0};
    auto** table = reinterpret_cast<float**>(costs);
    ncclResult_t result = ncclInternalError;
    switch (version_) {
      case 2:
        result = as<TunerV2>().get_coll_info(context_, function, bytes, 0, 1, 1, &taken.algorithm, &taken.protocol,
                                             &taken.channels);
        break;
      case 3:
        result =
            as<TunerV3>().get_coll_info(context_, function, bytes, 1, table, algorithms, protocols, &taken.channels);
        break;
      case 4:
        result =
            as<TunerV4>().get_coll_info(context_, function, bytes, 1, table, algorithms, protocols, 0, &taken.channels);
        break;
      case 5:
        result =
            as<TunerV5>().get_coll_info(context_, function, bytes, 1, table, algorithms, protocols, 0, &taken.channels);
        break;
      default:
        result =
            as<TunerV6>().get_coll_info(context_, function, bytes, 1, table, algorithms, protocols, 0, &taken.channels);
    }
    EXPECT_EQ(result, ncclSuccess);
    if (version_ == 2)
      return taken.algorithm < 0 ? Taken{own_choice.algorithm, own_choice.protocol, taken.channels} : taken;
    float least = 1e9F;
    for (int row = 0; row < algorithms; ++row) {
      for (int column = 0; column < protocols; ++column) {
        if (costs[row][column] == cost_ignore || costs[row][column] >= least) continue;
        least = costs[row][column];
        taken.algorithm = row, taken.protocol = column;
      }
    }
    return taken;
  }

  std::size_t chunk(Function function, std::size_t bytes, int algorithm, int protocol) {
    std::size_t size = 4096;
    EXPECT_EQ(as<TunerV6>().get_chunk_size(context_, function, bytes, algorithm, protocol, 8, &size), ncclSuccess);
    return size;
  }

  void end() {
    ncclResult_t result = ncclInternalError;
    switch (version_) {
      case 2:
        result = as<TunerV2>().destroy(context_);
        break;
      case 3:
        result = as<TunerV3>().destroy(context_);
        break;
      case 4:
        result = as<TunerV4>().destroy(context_);
        break;
      case 5:
        result = as<TunerV5>().finalize(context_);
        break;
      default:
        result = as<TunerV6>().finalize(context_);
    }
    EXPECT_EQ(result, ncclSuccess);
    context_ = nullptr;
  }

 private:
  template <class Tuner>
  const Tuner& as() const {
    return *static_cast<const Tuner*>(plugin_);
  }

  int version_;
  void* library_;
  void* plugin_ = nullptr;
  void* context_ = nullptr;
};

class Tuner : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("busbw-tuner-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    next_file();
    unsetenv("BUSBW_TUNER_ALIKE");
    unsetenv("BUSBW_TUNER_FACTS");
    version_code = 22809;
    lines.clear();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A process says each sentence once: another file is another sentence.
  void next_file() {
    static int files = 0;
    path_ = folder_ / ("table" + std::to_string(++files));
    setenv("BUSBW_TUNER_TABLE", path_.c_str(), 1);
  }
  const std::string& path() const { return path_; }
  void write(const std::string& text) {
    next_file();
    std::ofstream(path_) << text;
  }
  std::string said() const {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
  }
  bool says(const std::string& words) const { return said().find(words) != std::string::npos; }

  std::filesystem::path folder_;
  std::string path_;
};

std::string place(std::size_t ranks = 4, std::size_t nodes = 1, const std::string& nccl = "2.28.9") {
  const Place here = facts(ranks, nodes, log_line);
  std::ostringstream text;
  text << "measured\nnccl " << nccl << "\ngpu " << here.gpu << "\ndriver " << here.driver << "\ntopology "
       << here.topology << "\nranks " << ranks << "\nnodes " << nodes << "\n";
  return text.str();
}

const std::string rules =
    "rule all_reduce 0 65536 tree/ll gain=1.06..1.12\n"
    "rule all_reduce 65537 1048576 ring/ll128 channels=8 gain=1.03..1.05\n"
    "rule all_gather 0 1048576 default channels=16\n"
    "rule broadcast 0 99999999999 ring/ll chunk=65536\n";

std::string table(const std::string& where = place()) {
  return "busbw-tuner 1\n# a remark\n" + where + rules + "end 4\n";
}

}  // namespace
