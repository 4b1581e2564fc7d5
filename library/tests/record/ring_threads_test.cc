// A ring that comes round while threads are still at its places: no entry may mix two calls.
#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include "library/tests/record/recorded.h"

namespace busbw::record::test {
namespace {

constexpr std::uint64_t ring = 1024;

class RingsOfThreads : public Recorded {
 protected:
  Ticket begin(std::uint64_t n) { return recording->begin(row, {Kind::all_reduce, n, 7, 0}); }
  void call(std::uint64_t n) { recording->end(begin(n), 0, true); }
  void call_up_to(std::uint64_t last) {
    for (std::uint64_t n = recording->header().calls.load() + 1; n <= last; ++n) call(n);
  }
  std::uint64_t overtaken() const { return recording->header().overtaken.load(); }
};

// All words of a call tell who made it and which of his it was: an entry that mixes two is seen.
Given given_by(std::uint64_t thread, std::uint64_t n) {
  return {Kind::broadcast,
          n << 8 | thread,
          7,
          0,
          std::int64_t((n & 0xffff) << 3 | thread),
          reinterpret_cast<void*>((n & 0x1fff) << 3 | thread)};
}

struct Words {
  std::uint32_t stamp, sequence;
  std::uint64_t what, when, how;
};
static_assert(sizeof(Words) == sizeof(Call));

bool is_whole(const Words& entry) {
  const std::uint64_t thread = entry.what >> 48, n = (entry.what & 0xffffffffffff) >> 8;
  return (entry.what & 0xff) == thread && entry.sequence == std::uint32_t(n) &&
         entry.when >> 48 == ((n & 0x1fff) << 3 | thread) && (entry.how & 0x1f) == std::uint64_t(Kind::broadcast) &&
         (entry.how >> 16 & 0xfffff) == ((n & 0xffff) << 3 | thread);
}

// As another process reads while it is written: what the writers came round to meanwhile is not taken. The kernel's
// copy does not take the words of an entry in their order, so the stamps are those of a copy before.
struct Reader {
  explicit Reader(const std::string& path) : file(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Reader() { ::close(file); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  std::uint64_t calls() const {
    std::uint64_t number = 0;
    EXPECT_EQ(::pread(file, &number, sizeof number, offsetof(Header, calls)), ssize_t(sizeof number));
    return number;
  }
  void copy(std::vector<Words>& into, std::uint64_t calls_at) const {
    ASSERT_EQ(::pread(file, into.data(), into.size() * sizeof(Words), off_t(calls_at)),
              ssize_t(into.size() * sizeof(Words)));
  }
  void read(std::uint64_t calls_at) {
    const std::uint64_t last = calls();
    copy(before, calls_at);
    copy(entries, calls_at);
    const std::uint64_t now = calls();
    for (std::uint64_t number = now > ring ? now - ring + 1 : 1; number <= last; ++number) {
      const std::uint64_t place = (number - 1) & (ring - 1);
      if (before[place].stamp != std::uint32_t(number)) continue;
      ++taken;
      torn += is_whole(entries[place]) ? 0 : 1;
    }
  }

  int file;
  std::vector<Words> before{ring}, entries{ring};
  std::uint64_t taken = 0, torn = 0;
};

TEST_F(RingsOfThreads, NoEntryMixesTwoCalls) {
  constexpr std::uint64_t threads = 4;
  // A thread is a ring behind where it lost its processor in the midst of a call: that needs some turns.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  make(ring);
  std::vector<Communicator*> rows = {row};
  while (rows.size() < threads) rows.push_back(recording->add());
  const std::uint64_t calls_at = recording->header().calls_at;
  std::atomic<std::uint64_t> done{0};
  std::vector<std::thread> all;
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    all.emplace_back([&, thread] {
      for (std::uint64_t n = 1; n % 4096 || std::chrono::steady_clock::now() < until; ++n)
        recording->end(recording->begin(rows[thread], given_by(thread, n)), 0, true);
      done.fetch_add(1);
    });
  }
  Reader reader(recording->path());
  do reader.read(calls_at);
  while (done.load() < threads);
  for (std::thread& one : all) one.join();
  reader.read(calls_at);
  EXPECT_GT(reader.taken, 0U);
  EXPECT_EQ(reader.torn, 0U) << "of " << reader.taken;
  // What has no place is counted.
  const File file = this->file();
  std::uint64_t missing = 0;
  const std::uint64_t calls = file.header().calls.load();
  for (std::uint64_t number = calls - ring + 1; number <= calls; ++number)
    missing += file.call(number).stamp.load() != std::uint32_t(number);
  EXPECT_LE(missing, overtaken());
  EXPECT_EQ(file.header().overtaken.load(), overtaken());
}

TEST_F(RingsOfThreads, ACallThatHasNotEndedKeepsItsPlaceAndWhoComesThereIsCounted) {
  make(ring);
  const Ticket late = begin(1);
  call_up_to(ring);
  EXPECT_EQ(overtaken(), 0U);
  call_up_to(3 * ring);
  EXPECT_EQ(overtaken(), 2U);
  recording->end(late, 0, true);
  const File file = this->file();
  EXPECT_EQ(file.call(1).stamp.load(), 1U);
  EXPECT_EQ(File::count(file.call(1)), 1U);
  EXPECT_EQ(File::count(file.call(3 * ring)), 3 * ring);
  EXPECT_EQ(file.header().overtaken.load(), 2U);
}

TEST_F(RingsOfThreads, APlaceIsUsedAgainOnceItsCallHasEnded) {
  make(ring);
  const Ticket late = begin(1);
  call_up_to(3 * ring);
  recording->end(late, 0, true);
  call_up_to(5 * ring);
  EXPECT_EQ(overtaken(), 2U);
  const File file = this->file();
  EXPECT_EQ(File::count(file.call(4 * ring + 1)), 4 * ring + 1);
}

// The second one comes to the place before the first has ended, and the first after the second gave way.
TEST_F(RingsOfThreads, CallsThatGaveWayToEachOtherDoNotCloseAPlace) {
  make(ring);
  const Ticket first = begin(1);
  call_up_to(ring);
  const Ticket second = begin(ring + 1);
  EXPECT_EQ(second.call, nullptr);
  recording->end(first, 0, true);
  call_up_to(2 * ring);
  const Ticket third = begin(2 * ring + 1);
  EXPECT_NE(third.call, nullptr);
  call_up_to(4 * ring);
  EXPECT_EQ(overtaken(), 2U);
  recording->end(third, 0, true);
  call_up_to(4 * ring + 1);
  EXPECT_EQ(overtaken(), 2U);
  EXPECT_EQ(File::count(file().call(4 * ring + 1)), 4 * ring + 1);
}

}  // namespace
}  // namespace busbw::record::test
