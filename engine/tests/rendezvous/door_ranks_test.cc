// The door of one host: found by its name, closed with its process, and no stranger's.
#include "engine/rendezvous/net/door.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "engine/rendezvous/join/meeting_file.h"
#include "engine/rendezvous/net/stopped_looks.h"
#include "engine/tests/rendezvous/ranks.h"

namespace busbw {
namespace {

using testing::Child;

std::string own_name(const char* test) { return std::string("busbw-test-") + test + "-" + std::to_string(getpid()); }

TEST(Doorway, IsFoundByItsNameUntilItCloses) {
  const std::string name = own_name("found");
  EXPECT_FALSE(connect_to_door(name, 0).open());
  FileDescriptor door = listen_at_door(name);
  ASSERT_TRUE(door.open());
  const FileDescriptor caller = connect_to_door(name, 0);
  EXPECT_TRUE(caller.open());
  EXPECT_FALSE(of_another_user(caller));
  door.close();
  EXPECT_FALSE(connect_to_door(name, 0).open());
}

TEST(Doorway, TakesTheNextPlaceWhereOneIsTakenAndNoneWhereAllAre) {
  const std::string name = own_name("places");
  std::vector<FileDescriptor> doors;
  for (int place = 0; place < door_places; ++place) {
    doors.push_back(listen_at_door(name));
    EXPECT_TRUE(connect_to_door(name, place).open());
  }
  EXPECT_FALSE(listen_at_door(name).open());
}

TEST(Doorway, OfAKilledProcessIsFreeAtOnce) {
  const std::string name = own_name("killed");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FileDescriptor door = listen_at_door(name);
    [[maybe_unused]] const auto written = write(ready[1], "", 1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(connect_to_door(name, 0).open());
  EXPECT_TRUE(listen_at_door(name).open());
  for (const int end : ready) close(end);
}

TEST(Doorway, OfAnotherUserIsPassedBy) {
  if (getuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string name = own_name("other");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ready[0]);
    if (setuid(65534) != 0) _exit(1);
    const FileDescriptor door = listen_at_door(name);
    [[maybe_unused]] const auto written = write(ready[1], "", 1);
    pause();
  }
  close(ready[1]);
  char byte = 0;
  const bool is_another = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  if (!is_another) {
    waitpid(child, nullptr, 0);
    GTEST_SKIP() << "this root may not become another user";
  }
  EXPECT_FALSE(connect_to_door(name, 0).open());
  const FileDescriptor own = listen_at_door(name);
  EXPECT_TRUE(connect_to_door(name, 1).open());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// The variables of Open MPI: one host, met by the job's identity alone.
Environment of_mpirun(int process, const std::string& runtime_folder) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(process)},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(process)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_NAMESPACE", "job-" + std::to_string(getppid())},
          {"XDG_RUNTIME_DIR", runtime_folder},
          {"BUSBW_JOIN_TIMEOUT", "30"}};
}

std::string door_of_test(const std::string& runtime_folder, int test) {
  return door_name(runtime_folder, "mpirun\nPMIX_NAMESPACE=job-" + std::to_string(test) + "\n");
}

class MeetingPlace : public ::testing::Test {
 protected:
  MeetingPlace() {
    std::string pattern = ::testing::TempDir() + "/busbw-door-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~MeetingPlace() override { std::filesystem::remove_all(folder_); }

  Child start(int process) const {
    return Child([folder = folder_, process] {
      const auto rendezvous = join_job(of_mpirun(process, folder));
      rendezvous->barrier();
      rendezvous->leave();
      return std::string("met");
    });
  }
  std::string folder_;
};

// Whatever kills them, and whenever: there was never a file.
TEST_F(MeetingPlace, OfOneHostIsNoFile) {
  Child first = start(0);
  bool seen = false;
  for (int look = 0; look < 50; ++look, std::this_thread::sleep_for(std::chrono::milliseconds(4)))
    seen = seen || !std::filesystem::is_empty(folder_);
  Child second = start(1);
  EXPECT_EQ(second.said(), "met");
  EXPECT_EQ(first.said(), "met");
  EXPECT_FALSE(seen);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(MeetingPlace, IsAFileWhereAllPlacesAreTaken) {
  Child first = Child([folder = folder_] {
    std::vector<FileDescriptor> taken;
    for (int place = 0; place < door_places; ++place) taken.push_back(listen_at_door(door_of_test(folder, getppid())));
    const auto rendezvous = join_job(of_mpirun(0, folder));
    rendezvous->leave();
    return std::string("met");
  });
  Child second = start(1);
  for (int look = 0; look < 3000 && std::filesystem::is_empty(folder_); ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_FALSE(std::filesystem::is_empty(folder_));
  first.kill(SIGKILL);
}

// A stopped process 0 answers nobody who calls: the one that waits for its answer names it within seconds.
TEST_F(MeetingPlace, OfAStoppedProcessIsNamedByTheOneThatKnocks) {
  const std::string door = door_of_test(folder_, getpid());
  Child stopped = Child([door] {
    const FileDescriptor listening = listen_at_door(door);
    raise(SIGSTOP);
    return std::string("woken");
  });
  int status = 0;
  ASSERT_EQ(waitpid(stopped.pid(), &status, WUNTRACED), stopped.pid());
  const auto begin = Clock::now();
  Child second = start(1);
  const std::string said = second.said();
  EXPECT_NE(said.find("stopped (SIGSTOP)"), std::string::npos) << said;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(9)) << "only after the limit of a knock";
}

TEST(StoppedLooks, AreThreeOverTwoSeconds) {
  StoppedLooks looks;
  const Clock::time_point start{};
  const auto at = [&](int ms) { return start + std::chrono::milliseconds(ms); };
  EXPECT_FALSE(looks.add(true, at(0)));
  EXPECT_FALSE(looks.add(true, at(500)));
  EXPECT_FALSE(looks.add(true, at(1000)));
  EXPECT_TRUE(looks.add(true, at(1500)));
}

// Ctrl-Z for a minute: one look before, one after, and then it goes on.
TEST(StoppedLooks, OfAJobThatWasStoppedAsAWholeMeanNothing) {
  StoppedLooks looks;
  const Clock::time_point start{};
  EXPECT_FALSE(looks.add(true, start));
  EXPECT_FALSE(looks.add(true, start + std::chrono::seconds(60)));
  EXPECT_FALSE(looks.add(false, start + std::chrono::milliseconds(60'500)));
  EXPECT_FALSE(looks.add(true, start + std::chrono::seconds(70)));
}

// On a machine so busy that each look comes seconds after the last, a stopped rank is still seen.
TEST(StoppedLooks, NeedNoMoreThanThreeOnABusyMachine) {
  StoppedLooks looks;
  const Clock::time_point start{};
  EXPECT_FALSE(looks.add(true, start));
  EXPECT_FALSE(looks.add(true, start + std::chrono::seconds(3)));
  EXPECT_TRUE(looks.add(true, start + std::chrono::seconds(6)));
}

}  // namespace
}  // namespace busbw
