// The size grammar and the sweeps that follow from it.
#include "engine/app/size.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engine/core/error.h"

namespace busbw {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = kib * kib;
constexpr std::size_t gib = kib * mib;

std::vector<std::size_t> counts(const std::vector<Bytes>& sizes) {
  std::vector<std::size_t> numbers;
  for (const Bytes size : sizes) numbers.push_back(size.count);
  return numbers;
}

SizeRange range(std::size_t first, std::size_t last, std::size_t step, int factor) {
  return {.first = {first}, .last = {last}, .step = {step}, .factor = factor};
}

using Numbers = std::vector<std::size_t>;

TEST(ParseSize, ReadsCNumbersWithUnits) {
  EXPECT_EQ(parse_size("8").count, 8u);
  EXPECT_EQ(parse_size("1K").count, kib);
  EXPECT_EQ(parse_size("1k").count, kib);
  EXPECT_EQ(parse_size("1.5M").count, mib + mib / 2);
  EXPECT_EQ(parse_size("2g").count, 2 * gib);
  EXPECT_EQ(parse_size("1e3").count, 1000u);
  EXPECT_EQ(parse_size("0x10").count, 16u);
  EXPECT_EQ(parse_size("0").count, 0u);
  EXPECT_EQ(parse_size("+4").count, 4u);
}

TEST(ParseSize, LooksAtTheFirstLetterOnlyAndOverBlanks) {
  EXPECT_EQ(parse_size("2GB").count, 2 * gib);
  EXPECT_EQ(parse_size("1 K").count, kib);
  EXPECT_EQ(parse_size("3MiB").count, 3 * mib);
}

TEST(ParseSize, TruncatesToWholeBytes) {
  EXPECT_EQ(parse_size("1.9").count, 1u);
  EXPECT_EQ(parse_size("0.001K").count, 1u);
}

TEST(ParseSize, RefusesEverythingElseWithTheWordItself) {
  for (const char* text : {"", " ", "K", "T", "1T", "8B", "-1", "-1K", "nan", "inf", "infinity", "1e400", "1e30",
                           "8E18G", "9223372036854775808", "abc", "1,5M", "--", "."}) {
    try {
      parse_size(text);
      FAIL() << "'" << text << "' was taken for a size";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_arguments);
      EXPECT_NE(std::string(error.what()).find(std::string("invalid size specified for '") + text + "'"),
                std::string::npos);
    }
  }
}

TEST(ParseSize, ReadsBackEveryWholeNumberOfAUnit) {
  std::mt19937_64 random(1);
  const std::pair<const char*, std::size_t> units[] = {{"", 1}, {"K", kib}, {"m", mib}, {"G", gib}};
  for (int i = 0; i < 20'000; ++i) {
    const auto& [letter, unit] = units[random() % 4];
    // Doubles hold whole numbers up to 2^53.
    const std::size_t number = random() % (std::min<std::size_t>(std::size_t{1} << 53, (std::size_t{1} << 62) / unit));
    EXPECT_EQ(parse_size(std::to_string(number) + letter).count, number * unit);
  }
}

TEST(ParseSize, NeverCrashesOnRandomBytes) {
  std::mt19937_64 random(2);
  const std::string likely = "0123456789.eExXkKmMgG+- infa";
  int accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    const bool any_byte = random() % 2 == 0;
    for (std::size_t length = random() % 12; length > 0; --length)
      text += any_byte ? static_cast<char>(random()) : likely[random() % likely.size()];
    try {
      EXPECT_LT(parse_size(text).count, std::size_t{1} << 63);
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_arguments);
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(SizesOf, MultipliesUpToTheLastInclusive) {
  EXPECT_EQ(counts(sizes_of(range(8, 64, mib, 2))), (Numbers{8, 16, 32, 64}));
  EXPECT_EQ(counts(sizes_of(range(8, 63, mib, 2))), (Numbers{8, 16, 32}));
}

TEST(SizesOf, AddsWhereThereIsNoFactor) {
  EXPECT_EQ(counts(sizes_of(range(8, 20, 4, 1))), (Numbers{8, 12, 16, 20}));
  EXPECT_EQ(counts(sizes_of(range(8, 20, 4, 0))), (Numbers{8, 12, 16, 20}));
}

TEST(SizesOf, MeasuresASizeOfZeroOnceAndGoesOn) {
  EXPECT_EQ(counts(sizes_of(range(0, 16, mib, 2))), (Numbers{0, 2, 4, 8, 16}));
  EXPECT_EQ(counts(sizes_of(range(0, 12, 4, 1))), (Numbers{0, 4, 8, 12}));
  EXPECT_EQ(counts(sizes_of(range(0, 0, mib, 2))), (Numbers{0}));
  EXPECT_EQ(counts(sizes_of(range(0, 0, 0, 1))), (Numbers{0}));
}

TEST(SizesOf, RefusesAStepOfZeroThatWouldNotEnd) {
  EXPECT_THROW(sizes_of(range(8, 64, 0, 1)), Error);
  EXPECT_THROW(sizes_of(range(0, 64, 0, 1)), Error);
  EXPECT_EQ(counts(sizes_of(range(8, 8, 0, 1))), (Numbers{8}));
  EXPECT_EQ(counts(sizes_of(range(8, 16, 0, 2))), (Numbers{8, 16}));
}

TEST(SizesOf, RefusesAFirstSizeAboveTheLastAndMillionsOfSizes) {
  EXPECT_THROW(sizes_of(range(64, 8, mib, 2)), Error);
  EXPECT_EQ(sizes_of(range(1, 1'000'000, 1, 1)).size(), 1'000'000u);
  EXPECT_THROW(sizes_of(range(0, 1'000'000, 1, 1)), Error);
}

TEST(SizesOf, EndsWhereTheNextSizeWouldOverflow) {
  const std::size_t huge = SIZE_MAX - 10;
  EXPECT_EQ(counts(sizes_of(range(huge, SIZE_MAX, 100, 1))), (Numbers{huge, SIZE_MAX}));
  EXPECT_EQ(counts(warmup_sizes(range(huge, SIZE_MAX, 100, 1))), (Numbers{huge, SIZE_MAX}));
}

TEST(WarmupSizes, DoublesFromTheFirstWhateverTheStep) {
  EXPECT_EQ(counts(warmup_sizes(range(8, 100, 4, 1))), (Numbers{8, 16, 32, 64}));
  EXPECT_EQ(counts(warmup_sizes(range(3, 30, mib, 10))), (Numbers{3, 6, 12, 24}));
  EXPECT_EQ(counts(warmup_sizes(range(0, 20, 4, 1))), (Numbers{0, 4, 8, 16}));
  EXPECT_EQ(counts(warmup_sizes(range(0, 20, mib, 1))), (Numbers{0}));
}

}  // namespace
}  // namespace busbw
