// Feeds readers of foreign bytes with changed seeds: each input ends in a value or in one sentence, and soon.
//
// A short campaign as a test; BUSBW_FUZZ_SECONDS (for each reader), BUSBW_FUZZ_INPUTS and BUSBW_FUZZ_SEED make it long
// (tools/fuzz_native, with a sanitizer). An input depends on reader, seed and number alone: a crash names them.
#pragma once

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

extern "C" void __asan_set_death_callback(void (*callback)()) __attribute__((weak));

namespace busbw::testing::foreign_bytes {

constexpr std::uint64_t usual = 300;     // inputs of each reader, where nothing else is asked for
constexpr std::size_t longest = 20'000;  // bytes of an input
constexpr std::size_t most_in_line = 1600;
// Of one input. A sanitizer's code, not optimised, takes 20 to 40 times as long: its work is bounded by the other
// build.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double most_cpu_s = 5.0;
#else
constexpr double most_cpu_s = 0.5;
#endif

// splitmix64: the same numbers on every machine.
class Chance {
 public:
  Chance(std::uint64_t seed, std::string_view name, std::uint64_t number) : state_(seed * 0x9e3779b97f4a7c15u) {
    for (const char c : name) state_ = mixed() ^ static_cast<unsigned char>(c);
    state_ ^= number * 0xbf58476d1ce4e5b9u;
  }
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : mixed() % limit; }

 private:
  std::uint64_t mixed() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

inline const std::vector<std::string>& tokens() {
  static const std::vector<std::string> all{"0",
                                            "-1",
                                            "1e400",
                                            "nan",
                                            "99999999999999999999999",
                                            "18446744073709551615",
                                            "4294967296",
                                            "\xff",
                                            "\xc3",
                                            std::string(1, '\0'),
                                            std::string(4, '\xff'),
                                            "\n",
                                            "\r\n",
                                            "=",
                                            ",",
                                            "[",
                                            "]",
                                            "(x",
                                            ":",
                                            "/",
                                            "%s%n",
                                            "\x1b[31m",
                                            "\xed\xa0\x80",
                                            "[1-99999999]",
                                            "(x99999999)",
                                            std::string(5000, '1'),
                                            std::string(3000, '['),
                                            std::string(600, 'a'),
                                            "0-99999999",
                                            "1G",
                                            " ",
                                            "\t"};
  return all;
}

inline std::string changed(Chance& chance, const std::vector<std::string>& seeds) {
  std::string data = seeds[chance.below(seeds.size())];
  if (chance.below(5) == 0) {
    const std::string& other = seeds[chance.below(seeds.size())];
    data = data.substr(0, chance.below(data.size() + 1)) + other.substr(chance.below(other.size() + 1));
  }
  constexpr std::array<int, 5> counts{1, 1, 2, 3, 8};
  for (int left = counts[chance.below(counts.size())]; left > 0; --left) {
    const std::size_t at = chance.below(data.size() + 1);
    switch (chance.below(5)) {
      case 0:
        if (at < data.size()) data[at] = static_cast<char>(chance.below(256));
        break;
      case 1:
        data.insert(at, tokens()[chance.below(tokens().size())]);
        break;
      case 2:
        data.erase(at, std::array<std::size_t, 4>{1, 3, 20, 200}[chance.below(4)]);
        break;
      case 3:
        data.insert(at, data.substr(at, std::array<std::size_t, 3>{5, 50, 500}[chance.below(3)]));
        break;
      case 4:
        for (std::size_t i = at; i < data.size(); ++i) {
          if (data[i] < '0' || data[i] > '9') continue;
          data[i] = "0123456789.-e "[chance.below(14)];
          break;
        }
        break;
    }
  }
  if (data.size() > longest) data.resize(longest);
  return data;
}

// The text of a file of this process alone, for readers of files; one for all inputs.
class Scratch {
 public:
  Scratch() : path_("/tmp/busbw-foreign-XXXXXX"), file_(mkstemp(path_.data())) {}
  ~Scratch() {
    unlink(path_.c_str());
    close(file_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& with(std::string_view data) {
    EXPECT_EQ(ftruncate(file_, 0), 0);
    EXPECT_EQ(pwrite(file_, data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
    return path_;
  }

 private:
  std::string path_;
  int file_;
};

struct Reader {
  const char* name;
  std::function<void(std::string_view)> read;
  std::vector<std::string> seeds;
};

inline const char* current_reader = "";
inline std::uint64_t current_seed = 0, current_number = 0;

inline void say_which() {
  std::fprintf(stderr, "BAD reader '%s', seed %llu, input %llu\n", current_reader,
               static_cast<unsigned long long>(current_seed), static_cast<unsigned long long>(current_number));
}

inline double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

inline std::size_t longest_line(std::string_view sentence) {
  std::size_t longest_yet = 0;
  for (std::size_t begin = 0; begin <= sentence.size();) {
    const std::size_t end = std::min(sentence.find('\n', begin), sentence.size());
    longest_yet = std::max(longest_yet, end - begin);
    begin = end + 1;
  }
  return longest_yet;
}

// `sentence_about` calls what it is given: it returns the sentence of what may be thrown, and lets everything else
// pass.
inline void run_campaign(const Reader& reader,
                         const std::function<std::string(const std::function<void()>&)>& sentence_about) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(number_of("BUSBW_FUZZ_SECONDS", 0));
  const std::uint64_t most = number_of("BUSBW_FUZZ_INPUTS", std::getenv("BUSBW_FUZZ_SECONDS") ? UINT64_MAX : usual);
  const bool timed = std::getenv("BUSBW_FUZZ_SECONDS") != nullptr;
  if (__asan_set_death_callback != nullptr) __asan_set_death_callback(say_which);
  current_reader = reader.name;
  current_seed = number_of("BUSBW_FUZZ_SEED", 1);
  std::uint64_t refused = 0;
  double slowest = 0;
  const std::uint64_t first = number_of("BUSBW_FUZZ_FIRST", 0);
  std::uint64_t n = first;
  for (; n < most; ++n) {
    if (timed && n % 64 == 0 && std::chrono::steady_clock::now() >= end) break;
    current_number = n;
    Chance chance(current_seed, reader.name, n);
    const std::string data = n < reader.seeds.size() ? reader.seeds[n] : changed(chance, reader.seeds);
    const double before = cpu_s();
    std::string sentence;
    try {
      sentence = sentence_about([&] { reader.read(data); });
    } catch (const std::exception& error) {
      say_which();
      FAIL() << "input " << n << " of seed " << current_seed << ": " << error.what();
    }
    refused += sentence.empty() ? 0 : 1;
    const double spent = cpu_s() - before;
    slowest = std::max(slowest, spent);
    if (spent > most_cpu_s) say_which();
    ASSERT_LE(spent, most_cpu_s) << "input " << n << " of seed " << current_seed;
    // It may quote the input, but no more of it than a person reads.
    ASSERT_LE(longest_line(sentence), most_in_line) << "input " << n << " of seed " << current_seed;
  }
  if (timed || most > usual)
    std::printf("%s: %llu inputs, %llu sentences, slowest %.0f ms\n", reader.name,
                static_cast<unsigned long long>(n - first), static_cast<unsigned long long>(refused), slowest * 1e3);
}

inline std::string name_of_reader(const ::testing::TestParamInfo<Reader>& info) {
  std::string name;
  for (const char* c = info.param.name; *c != '\0'; ++c) name += *c == ' ' ? '_' : *c;
  return name;
}

}  // namespace busbw::testing::foreign_bytes
