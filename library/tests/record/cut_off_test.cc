// A recording whose file somebody makes shorter: the program goes on, and every other SIGBUS is what it was. Each in a
// process of its own, as a handler is the process's.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "busbw/nccl_abi.h"
#include "library/record/cut_off.h"
#include "library/tests/record/recorded.h"

namespace busbw::record::test {
namespace {

class CutOff : public Recorded {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "a sanitizer handles SIGBUS itself";
#endif
  }
};

// Ends with 0 where `right`.
[[noreturn]] void end(bool right) { ::_exit(right ? 0 : 1); }

void call(Recording& recording, Communicator* row, std::uint64_t times) {
  for (std::uint64_t n = 0; n < times; ++n) recording.end(recording.begin(row, {Kind::all_reduce, n, 7, 0}), 0, true);
}

TEST_F(CutOff, TheProgramGoesOnAndTheFileStaysAsItWasMade) {
  const auto work = [&] {
    make();
    call(*recording, row, 10);
    if (was_cut_off() || ::truncate(recording->path().c_str(), 0) != 0) ::_exit(2);
    // Each place of the ring, twice.
    call(*recording, row, 2 * recording->header().call_capacity);
    end(was_cut_off() && std::filesystem::file_size(recording->path()) == 0);
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(0), "");
}

TEST_F(CutOff, ReadersOfTheHeaderInTheProgramFindWhatNeverChanges) {
  const auto work = [&] {
    make();
    const Header& header = recording->header();
    const std::uint64_t boot = header.boot_id, at = header.calls_at, capacity = header.call_capacity;
    if (::truncate(recording->path().c_str(), 0) != 0) ::_exit(2);
    call(*recording, row, 1);
    end(was_cut_off() && header.boot_id == boot && header.calls_at == at && header.call_capacity == capacity &&
        header.backed == capacity && std::memcmp(header.magic, magic, sizeof magic) == 0);
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(0), "");
}

TEST_F(CutOff, ACallThatBeganBeforeComesBackAfterIt) {
  const auto work = [&] {
    make();
    const Ticket ticket = recording->begin(row, {Kind::all_reduce, 1, 7, 0});
    if (::truncate(recording->path().c_str(), 0) != 0) ::_exit(2);
    recording->end(ticket, ncclRemoteError, true);
    end(was_cut_off());
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(0), "");
}

TEST_F(CutOff, NoRoomIsAskedForAnyMore) {
  const auto work = [&] {
    // More than the room that a file begins with.
    make(1 << 17);
    if (::truncate(recording->path().c_str(), 4096) != 0) ::_exit(2);
    call(*recording, row, 1 << 17);
    end(was_cut_off() && std::filesystem::file_size(recording->path()) == 4096);
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(0), "");
}

TEST_F(CutOff, ThreadsThatCallMeanwhileGoOnToo) {
  const auto work = [&] {
    make(1 << 16);
    std::vector<std::thread> all;
    for (int each = 0; each < 4; ++each) all.emplace_back([this] { call(*recording, recording->add(), 1 << 15); });
    for (int turn = 0; turn < 20; ++turn)
      if (::truncate(recording->path().c_str(), 0) != 0) ::_exit(2);
    for (std::thread& one : all) one.join();
    call(*recording, row, 1);
    end(was_cut_off());
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(0), "");
}

TEST_F(CutOff, ABusErrorOfTheProgramsOwnFileEndsItAsBefore) {
  const auto work = [&] {
    make();
    const std::string path = folder.path + "/own";
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (::ftruncate(file, 8192) != 0) ::_exit(2);
    auto* memory = static_cast<volatile char*>(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    if (::ftruncate(file, 0) != 0) ::_exit(2);
    memory[0] = 1;
    ::_exit(3);
  };
  EXPECT_EXIT(work(), ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(CutOff, ASignalThatSomebodySendsEndsTheProgramAsBefore) {
  const auto work = [&] {
    make();
    ::raise(SIGBUS);
    ::_exit(3);
  };
  EXPECT_EXIT(work(), ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(CutOff, AProgramThatHandlesBusErrorsItselfIsLeftAlone) {
  const auto work = [&] {
    ::signal(SIGBUS, [](int) { ::_exit(was_cut_off() ? 1 : 0); });
    make();
    if (::truncate(recording->path().c_str(), 0) != 0) ::_exit(2);
    call(*recording, row, 1);
    ::_exit(3);
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(0), "");
}

TEST_F(CutOff, AHandlerThatTheProgramSetsLaterIsTheOneThatCounts) {
  const auto work = [&] {
    make();
    ::signal(SIGBUS, [](int) { ::_exit(0); });
    if (::truncate(recording->path().c_str(), 0) != 0) ::_exit(2);
    call(*recording, row, 1);
    ::_exit(3);
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace busbw::record::test
