// The tuner plugin under hosts that misuse it: nothing crashes, nothing is applied that is not meant, NCCL goes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <thread>
#include <vector>

#include "library/tests/tuner/host.h"

namespace {

// The plugin of one version, called without the care that NCCL takes.
template <class Interface>
class Plugin {
 public:
  explicit Plugin(int version) : library_(dlopen(BUSBW_TEST_TUNER, RTLD_NOW | RTLD_LOCAL)) {
    functions_ =
        static_cast<const Interface*>(dlsym(library_, ("ncclTunerPlugin_v" + std::to_string(version)).c_str()));
  }
  ~Plugin() { dlclose(library_); }
  const Interface* operator->() const { return functions_; }

 private:
  void* library_;
  const Interface* functions_ = nullptr;
};

void silent(LogLevel, unsigned long, const char*, int, const char*, ...) {}

// What is left of NCCL's estimates: 0 where the plugin chose.
float cost_of_tree(const TunerV6& plugin, void* context, std::size_t bytes = 8) {
  std::vector<float> costs(std::size_t(algorithms) * protocols, 5.0F);
  int channels = 0;
  EXPECT_EQ(plugin.get_coll_info(context, func_all_reduce, bytes, 1, reinterpret_cast<float**>(costs.data()),
                                 algorithms, protocols, 0, &channels),
            ncclSuccess);
  return costs[std::size_t(algo_tree) * protocols + proto_ll];
}

TEST_F(Tuner, EndsTwiceAndIsAskedAfterTheEnd) {
  write(table());
  const Plugin<TunerV6> plugin(6);
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(plugin->init(&first, 1, 4, 1, silent, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), first), 0.0F);
  EXPECT_EQ(plugin->finalize(first), ncclSuccess);
  ASSERT_EQ(plugin->init(&second, 2, 4, 1, silent, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(plugin->finalize(first), ncclSuccess);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), first), 5.0F);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), second), 0.0F) << "the end of one ended another";
  int never = 7;
  for (void* other : {static_cast<void*>(nullptr), static_cast<void*>(&never), reinterpret_cast<void*>(-1L)}) {
    EXPECT_EQ(cost_of_tree(*plugin.operator->(), other), 5.0F);
    std::size_t chunk = 4096;
    EXPECT_EQ(plugin->get_chunk_size(other, func_broadcast, 8, algo_ring, proto_ll, 8, &chunk), ncclSuccess);
    EXPECT_EQ(chunk, 4096U);
    EXPECT_EQ(plugin->finalize(other), ncclSuccess);
  }
  EXPECT_EQ(plugin->finalize(second), ncclSuccess);
}

TEST_F(Tuner, CommunicatorsOfOneProcessHaveEachTheirPlace) {
  write("busbw-tuner 1\n" + place(2) + "rule all_reduce 0 10 tree/ll\n" + place(4) +
        "rule all_reduce 11 20 tree/ll\nend 2\n");
  const Plugin<TunerV6> plugin(6);
  void *two = nullptr, *four = nullptr, *none = nullptr, *empty = nullptr;
  for (const auto& [context, ranks, nodes] :
       {std::tuple(&two, 2, 1), std::tuple(&four, 4, 1), std::tuple(&none, 4, 2), std::tuple(&empty, 0, 0)}) {
    ASSERT_EQ(plugin->init(context, 1, std::size_t(ranks), std::size_t(nodes), silent, nullptr, nullptr), ncclSuccess);
  }
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), two, 8), 0.0F);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), two, 15), 5.0F);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), four, 8), 5.0F);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), four, 15), 0.0F);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), none, 8), 5.0F);
  // A second beginning without an end is another communicator.
  void* again = two;
  ASSERT_EQ(plugin->init(&again, 1, 4, 1, silent, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), again, 15), 0.0F);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), two, 8), 0.0F);
  for (void* context : {two, four, none, empty, again}) EXPECT_EQ(plugin->finalize(context), ncclSuccess);
}

TEST_F(Tuner, AnyNumbersAndNoPointersAreTaken) {
  write(table());
  const Plugin<TunerV6> plugin(6);
  void* context = nullptr;
  EXPECT_EQ(plugin->init(nullptr, 1, 4, 1, silent, nullptr, nullptr), ncclSuccess);
  ASSERT_EQ(plugin->init(&context, 1, 4, 1, nullptr, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), context), 5.0F) << "without a logger nobody knows which NCCL asks";
  EXPECT_EQ(plugin->finalize(context), ncclSuccess);
  ASSERT_EQ(plugin->init(&context, 1, 4, 1, silent, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(cost_of_tree(*plugin.operator->(), context), 0.0F);
  for (const int function : {INT_MIN, -1, 0, 1, 2, 3, 4, 5, 100, INT_MAX}) {
    for (const std::size_t bytes : {std::size_t(0), std::size_t(8), ~std::size_t(0)}) {
      for (const auto& [rows, columns] : {std::pair(-5, 1), {1, -5}, {0, 0}, {1, 1}, {6, 3}, {7, 2}, {9, 4}}) {
        std::vector<float> costs(std::size_t(std::max(rows, 0)) * std::size_t(std::max(columns, 0)), -1.0F);
        auto** as_nccl = reinterpret_cast<float**>(costs.data());
        int channels = 0;
        for (int* const out : {&channels, static_cast<int*>(nullptr)}) {
          EXPECT_EQ(plugin->get_coll_info(context, Function(function), bytes, 1, as_nccl, rows, columns, 0, out),
                    ncclSuccess);
          EXPECT_EQ(plugin->get_coll_info(context, Function(function), bytes, 1, nullptr, rows, columns, 0, out),
                    ncclSuccess);
        }
        EXPECT_EQ(plugin->get_chunk_size(context, Function(function), bytes, rows, columns, 8, nullptr), ncclSuccess);
      }
    }
  }
  // A length below nothing is read as none, not up to where memory ends; rows that are not there stay as they are.
  const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<char*>(memory) + page, page, PROT_NONE), 0);
  auto* costs = static_cast<float*>(memory);
  std::fill_n(costs, page / sizeof(float), -1.0F);
  EXPECT_EQ(plugin->get_coll_info(context, func_all_reduce, 8, 1, static_cast<float**>(memory), -1, 1, 0, nullptr),
            ncclSuccess);
  std::fill_n(costs, page / sizeof(float), 3.0F);
  EXPECT_EQ(plugin->get_coll_info(context, func_broadcast, 8, 1, static_cast<float**>(memory), 1, 3, 0, nullptr),
            ncclSuccess);
  EXPECT_EQ(std::count(costs, costs + page / sizeof(float), 3.0F), std::ptrdiff_t(page / sizeof(float)));
  munmap(memory, 2 * page);
  plugin->finalize(context);
}

TEST_F(Tuner, ThreadsBeginAskAndEndAtOnce) {
  write(table());
  const Plugin<TunerV6> plugin(6);
  void* shared = nullptr;
  ASSERT_EQ(plugin->init(&shared, 1, 4, 1, silent, nullptr, nullptr), ncclSuccess);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      const bool ruled = thread % 2 == 0;
      for (int round = 0; round < 50; ++round) {
        void* own = nullptr;
        plugin->init(&own, 1, ruled ? 4 : 3, 1, silent, nullptr, nullptr);
        wrong += cost_of_tree(*plugin.operator->(), own) != (ruled ? 0.0F : 5.0F);
        wrong += cost_of_tree(*plugin.operator->(), shared) != 0.0F;
        plugin->finalize(own);
        wrong += cost_of_tree(*plugin.operator->(), own) != 5.0F;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  plugin->finalize(shared);
}

TEST_F(Tuner, AFileThatIsChangedMeanwhileIsNotApplied) {
  std::string text = "busbw-tuner 1\n" + place();
  for (int rule = 0; rule < 9000; ++rule) text += "rule all_reduce 0 65536 tree/ll\n";
  write(text + "end 9000\n");
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (long round = 1; !stop; ++round) {
      const timespec times[2] = {{round, round}, {round, round}};
      EXPECT_EQ(utimensat(AT_FDCWD, path().c_str(), times, 0), 0);
    }
  });
  std::string words;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (words.empty() && std::chrono::steady_clock::now() < until) {
    const auto read = read_table(path().c_str());
    if (const auto* why = std::get_if<std::string>(&read.table)) words = *why;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(words, "it was changed while it was read");
  EXPECT_TRUE(std::holds_alternative<Table>(read_table(path().c_str()).table));
}

TEST_F(Tuner, EachFactOfAPlaceCounts) {
  for (const std::string fact : {"nccl", "gpu", "driver", "topology"}) {
    std::string other = place();
    const std::size_t at = other.find("\n" + fact + " ") + fact.size() + 2;
    other.replace(at, other.find('\n', at) - at, "another");
    write(table(other));
    Host host(6);
    ASSERT_EQ(host.begin(4, 1), ncclSuccess);
    EXPECT_EQ(host.ask(func_all_reduce, 8), own_choice) << fact;
    EXPECT_TRUE(says("measured with " + fact + " another (here ")) << said();
    host.end();
  }
  // What cannot be found out is like nothing.
  write(table());
  version_code = 0;
  Host host(6);
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 8), own_choice);
  EXPECT_TRUE(says("measured with nccl 2.28.9 (here unknown)")) << said();
  host.end();
}

TEST_F(Tuner, OldestInterfaceAsksForNothingThatTheMachineLacks) {
  const std::pair<const char*, std::pair<int, int>> lacking[] = {
      {"nvls/simple", {1, 0}}, {"nvls_tree/simple", {1, 0}}, {"collnet_chain/simple", {0, 1}}};
  for (const auto& [way, has] : lacking) {
    write("busbw-tuner 1\n" + place() + "rule all_reduce 0 10 " + way + "\nend 1\n");
    const Plugin<TunerV2> plugin(2);
    void* context = nullptr;
    ASSERT_EQ(plugin->init(4, 1, silent, &context), ncclSuccess);
    for (const bool lacks : {true, false}) {
      int algorithm = algo_undefined, protocol = proto_undefined, channels = 0;
      EXPECT_EQ(plugin->get_coll_info(context, func_all_reduce, 8, lacks ? has.first : 1, lacks ? has.second : 1, 1,
                                      &algorithm, &protocol, &channels),
                ncclSuccess);
      EXPECT_EQ(algorithm == algo_undefined, lacks) << way;
    }
    EXPECT_EQ(plugin->destroy(context), ncclSuccess);
  }
}

TEST(TunerTable, WhatStandsTwiceOrInAnotherOrderIsRefused) {
  const std::string first = "busbw-tuner 1\n", rule = "rule all_reduce 0 4 tree/ll\n";
  const std::pair<std::string, std::string> wrong[] = {
      {first + place() + rule + "end 1\n" + rule, "something follows the line `end`"},
      {first + place() + rule + "end 2\n", "the count behind `end` is not that of its rules"},
      {first + place() + "gpu another\n" + rule + "end 1\n", "no one value of gpu"},
      {first + place() + "ranks 8\n" + rule + "end 1\n", "no count of ranks"},
      {first + place() + rule + "driver 580\nend 1\n", "a fact follows the rules of its place"},
      {first + place() + "rule all_reduce 0 4 tree/ll channels=2 channels=3\nend 1\n", "no detail of a rule"},
      {first + place() + "rule all_reduce 0 4 tree/ll chunk=2 chunk=3\nend 1\n", "no detail of a rule"},
  };
  for (const auto& [text, words] : wrong) {
    const auto read = parse_table(text);
    const std::string* why = std::get_if<std::string>(&read);
    ASSERT_NE(why, nullptr) << words;
    EXPECT_NE(why->find(words), std::string::npos) << *why;
  }
}

std::string hashed(const std::string& lines, int rules) {
  return lines + "end " + std::to_string(rules) + " hash=" + hash_of(lines) + "\n";
}

TEST(TunerTable, AHashBehindTheEndIsThatOfTheLinesBeforeIt) {
  const std::string lines = "busbw-tuner 1\n" + place() + "rule all_reduce 0 10 tree/ll\n", hash = hash_of(lines);
  EXPECT_TRUE(std::holds_alternative<Table>(parse_table(hashed(lines, 1))));
  EXPECT_TRUE(std::holds_alternative<Table>(parse_table(lines + "end 1\n"))) << "a table that a person wrote has none";
  for (const std::string& end : {"end 1 hash=" + hash + " ", "end 1 hash=" + hash.substr(1), std::string("end 1 hash="),
                                 std::string("end 1 "), "end 1  hash=" + hash, "end 1 " + hash, "end 2 hash=" + hash,
                                 "end  hash=" + hash, "end 1 hash=" + hash + "0"}) {
    EXPECT_TRUE(std::holds_alternative<std::string>(parse_table(lines + end + "\n"))) << end;
  }
}

// A writer that replaces the bytes of a file one after the other and rests anywhere: size and time stand still
// meanwhile.
TEST(TunerTable, HalfOfAnOldTableAndHalfOfANewOneAreNone) {
  const auto text = [](const char* way) {
    return hashed("busbw-tuner 1\n" + place() + "rule all_reduce 0 10 " + way + "\nrule broadcast 0 10 " + way + "\n",
                  2);
  };
  const std::string before = text("tree/ll"), after = text("ring/ll");
  ASSERT_EQ(before.size(), after.size());
  std::size_t torn = 0;
  for (std::size_t at = 0; at <= after.size(); ++at) {
    const std::string half = after.substr(0, at) + before.substr(at);
    if (half == before || half == after) continue;
    ++torn;
    EXPECT_TRUE(std::holds_alternative<std::string>(parse_table(half))) << "at byte " << at;
    EXPECT_TRUE(std::holds_alternative<std::string>(parse_table(after.substr(0, at)))) << "cut off at byte " << at;
  }
  EXPECT_GT(torn, 50U);
}

TEST_F(Tuner, LinksAndLargeAndUnreadableFiles) {
  write(table());
  const std::string whole = path();
  next_file();
  std::filesystem::create_symlink(whole, path());
  Host host(6);
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 8), (Taken{algo_tree, proto_ll, 0}));  // as a ConfigMap mounts its files
  host.end();
  const auto refused = [&](const std::string& words) {
    lines.clear();
    ASSERT_EQ(host.begin(4, 1), ncclSuccess);
    EXPECT_EQ(host.ask(func_all_reduce, 8), own_choice);
    EXPECT_EQ(lines.size(), 1U) << said();
    EXPECT_TRUE(says(words)) << said();
    host.end();
  };
  next_file();
  std::filesystem::create_symlink(path(), path());
  refused("cannot be opened: Too many levels of symbolic links");
  next_file();
  std::filesystem::create_symlink(folder_ / "nothing", path());
  refused("cannot be opened: No such file");
  next_file();
  std::filesystem::create_symlink("/dev/zero", path());
  refused("no regular file");
  write("busbw-tuner 1\n");
  std::filesystem::resize_file(path(), std::uintmax_t(1) << 40);
  refused("larger than 1 MiB");
  if (getuid() == 0) return;
  write(table());
  std::filesystem::permissions(path(), std::filesystem::perms::none);
  refused("Permission denied");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ncclResult_t ncclGetVersion(int* version) {
  *version = version_code;
  return ncclSuccess;
}
