// Whom BUSBW_PARENT names, and what /proc says of processes.
#include "engine/platform/lifeline.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/platform/process.h"

namespace busbw {
namespace {

using Ancestors = std::vector<Ancestor>;

TEST(Parents, AreReadWhereTheyWereWritten) {
  EXPECT_EQ(read_parents("b-1/pid:[4]/12.345,7.8", "b-1", "pid:[4]"), (Ancestors{{12, 345}, {7, 8}}));
}

TEST(Parents, OfAnotherHostOrContainerMeanNothingHere) {
  EXPECT_TRUE(read_parents("b-1/pid:[4]/12.345", "b-2", "pid:[4]").empty());
  EXPECT_TRUE(read_parents("b-1/pid:[4]/12.345", "b-1", "pid:[5]").empty());
}

TEST(Parents, ThatCannotBeReadAreNone) {
  for (const char* text : {"", "/", "//", "b/p", "b/p/", "b/p/x", "b/p/1.5", "b/p/12", "b/p/-3.4", "b/p/12.5,oops"})
    EXPECT_TRUE(read_parents(text, "b", "p").empty()) << text;
}

TEST(Process, IsSeenToLiveToStandStillAndToHaveEnded) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  EXPECT_TRUE(stat_of(child).lives());
  EXPECT_EQ(stat_of(child).parent, getpid());
  EXPECT_FALSE(end_stopped(child)) << "it runs";
  kill(child, SIGSTOP);
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  EXPECT_TRUE(stat_of(child).stopped());
  EXPECT_TRUE(end_stopped(child));
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  EXPECT_FALSE(stat_of(child).lives()) << "a zombie has ended";
  waitpid(child, &status, 0);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(StandardDescriptors, ThatWereClosedAreOnDevNull) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : {0, 1, 2}) close(number);
    open_standard_descriptors();
    struct stat status{}, null{};
    stat("/dev/null", &null);
    for (const int number : {0, 1, 2})
      if (fstat(number, &status) != 0 || status.st_rdev != null.st_rdev) _exit(number + 1);
    const int next = open("/dev/null", O_RDONLY);
    _exit(next > 2 ? 0 : 10);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace busbw
