// The tuner plugin in processes that fork while their threads use it, and in those that load it more than once.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>
#include <vector>

#include "library/tests/tuner/host.h"

namespace {

void silent(LogLevel, unsigned long, const char*, int, const char*, ...) {}

// A library that is open, with its newest interface.
class Loaded {
 public:
  explicit Loaded(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) throw std::runtime_error(dlerror());
    functions_ = static_cast<const TunerV7*>(dlsym(library_, "ncclTunerPlugin_v7"));
  }
  ~Loaded() { dlclose(library_); }
  const TunerV7* operator->() const { return functions_; }

 private:
  void* library_;
  const TunerV7* functions_ = nullptr;
};

// Whether the plugin chose tree/ll for a small all-reduce.
bool chooses(const Loaded& plugin, void* context) {
  std::vector<float> costs(std::size_t(algorithms) * protocols, 5.0F);
  int channels = 0;
  plugin->get_coll_info(context, func_all_reduce, 8, 1, reinterpret_cast<float**>(costs.data()), algorithms, protocols,
                        0, &channels);
  return costs[std::size_t(algo_tree) * protocols + proto_ll] == 0.0F;
}

// A communicator from its beginning to its end.
bool lives(const Loaded& plugin) {
  void* context = nullptr;
  if (plugin->init(&context, 1, 4, 1, silent, nullptr, nullptr) != ncclSuccess) return false;
  const bool chosen = chooses(plugin, context);
  return plugin->finalize(context) == ncclSuccess && chosen;
}

// Sanitizers have locks of their own, which a child of several threads may inherit closed.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_F(Tuner, AProcessThatForksWhileThreadsAskGoesOnInBoth) {
  write(table());
  const Loaded plugin(BUSBW_TEST_TUNER);
  void* inherited = nullptr;
  ASSERT_EQ(plugin->init(&inherited, 1, 4, 1, silent, nullptr, nullptr), ncclSuccess);
  std::atomic<bool> over = false, wrong = false;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, asks = number % 2 == 0] {
      while (!over) {
        if (asks ? !chooses(plugin, inherited) : !lives(plugin)) wrong = true;
      }
    });
  }
  int hung = 0, bad = 0;
  for (int number = 0; number < 25 && !hung; ++number) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // ends a child that waits for a lock whose holder is not here
      const bool good = chooses(plugin, inherited) && lives(plugin) && plugin->finalize(inherited) == ncclSuccess;
      _exit(good ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    hung += WIFSIGNALED(status);
    bad += WIFEXITED(status) && WEXITSTATUS(status) != 0;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(hung, 0);
  EXPECT_EQ(bad, 0);
  EXPECT_FALSE(wrong);
  EXPECT_TRUE(chooses(plugin, inherited));
  EXPECT_EQ(plugin->finalize(inherited), ncclSuccess);
}
#endif

TEST_F(Tuner, ItIsLoadedTwiceAndByTwoNames) {
  write(table());
  const std::string copy = folder_ / "libnccl-tuner-other.so";
  std::filesystem::copy_file(BUSBW_TEST_TUNER, copy);
  const Loaded second(BUSBW_TEST_TUNER), other(copy);
  void *mine = nullptr, *others = nullptr;
  {
    const Loaded first(BUSBW_TEST_TUNER);
    ASSERT_EQ(first->init(&mine, 1, 4, 1, silent, nullptr, nullptr), ncclSuccess);
    ASSERT_EQ(other->init(&others, 1, 4, 1, silent, nullptr, nullptr), ncclSuccess);
  }
  // Closed once, open twice: the contexts live on.
  EXPECT_TRUE(chooses(second, mine));
  EXPECT_TRUE(chooses(other, others));
  EXPECT_EQ(second->finalize(mine), ncclSuccess);
  EXPECT_FALSE(chooses(second, mine));
  EXPECT_TRUE(chooses(other, others)) << "the end in one copy ended another's";
  EXPECT_EQ(other->finalize(others), ncclSuccess);
}

TEST_F(Tuner, ItIsUnloadedBetweenForks) {
  write(table());
  for (int number = 0; number < 20; ++number) {
    {
      const Loaded plugin(BUSBW_TEST_TUNER);
      EXPECT_TRUE(lives(plugin));
    }
    // What the plugin asked to be told of forks must be gone with it.
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(0);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ncclResult_t ncclGetVersion(int* version) {
  *version = version_code;
  return ncclSuccess;
}
