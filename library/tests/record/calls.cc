// Records calls as fast as it can, and says what one costs and how much of its files is in memory:
// busbw_test_record_calls FOLDER RING CALLS THREADS [stay | closes FILE]. With `closes` it closes all descriptors
// first, as daemons do, and opens a file of its own, which gets the recording's number.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "library/record/recording.h"

using namespace busbw::record;  // NOLINT: a test's program

namespace {

void take_descriptors(const char* own) {
  for (int each = 3; each < 256; ++each) ::close(each);
  for (int turn = 0; turn < 8; ++turn) {
    const int file = ::open(own, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ::pwrite(file, "mine", 4, 0) != 4) std::exit(3);
  }
}

long files_in_memory() {
  std::ifstream status("/proc/self/status");
  long sum = 0;
  for (std::string word; status >> word;) {
    long amount = 0;
    if ((word == "RssFile:" || word == "RssShmem:") && status >> amount) sum += amount;
  }
  return sum;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) return 2;
  Settings settings;
  settings.folder = arguments[1];
  settings.calls = std::strtoull(arguments[2], nullptr, 10);
  const auto calls = std::strtoull(arguments[3], nullptr, 10);
  const auto threads = std::strtoull(arguments[4], nullptr, 10);
  try {
    auto* recording = new Recording(settings);
    std::vector<Communicator*> rows;
    for (unsigned long long i = 0; i < threads; ++i) {
      rows.push_back(recording->add());
      rows.back()->identity = 7;
      rows.back()->rank = int(i);
      rows.back()->ranks = int(threads);
      rows.back()->made = Made::init;
    }
    if (count > 6 && std::string(arguments[5]) == "closes") take_descriptors(arguments[6]);
    const long before = files_in_memory();
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> all;
    for (unsigned long long i = 0; i < threads; ++i) {
      all.emplace_back([&, i] {
        // A count that tells the call: a record that mixes two is seen.
        for (std::uint64_t n = 1; n <= calls; ++n)
          recording->end(recording->begin(rows[i], {Kind::all_reduce, n << 8 | i, 7, 0}), 0, true);
      });
    }
    for (std::thread& one : all) one.join();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    std::printf("%.1f ns a call, %ld KiB more in memory\n", took.count() / double(calls), files_in_memory() - before);
    std::fflush(stdout);
    if (count > 5 && std::string(arguments[5]) == "stay") ::pause();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  return 0;
}
