// Whom BUSBW_PARENT names, and what /proc says of processes.
#include "engine/platform/lifeline.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

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

// A rank of a Slurm step beside one that is killed before all have come: exits with 0 where it notices that.
int look_for_the_end_of_another(int answer, const std::string& launcher) {
  remember_tasks(launcher);
  if (ended_task()) return 1;
  if (write(answer, "r", 1) != 1) return 2;
  for (int look = 0; look < 1000; ++look, usleep(5000))
    if (ended_task()) return 0;
  return 3;
}

TEST(TasksOfAStep, AreRememberedAndTheirEndIsSeen) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t victim = fork();
  if (victim == 0) {
    for (;;) pause();
  }
  const pid_t rank = fork();
  if (rank == 0) {
    setenv("SLURM_PROCID", "0", 1);
    unsetenv("BUSBW_RANK");
    _exit(look_for_the_end_of_another(ready[1], command_of(getppid())));
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  kill(victim, SIGKILL);
  int status = 0;
  waitpid(victim, &status, 0);
  waitpid(rank, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (const int end : ready) close(end);
}

TEST(TasksOfAStep, AreThoseOfSlurmAlone) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("SLURM_PROCID", "0", 1);
    remember_tasks();  // the parent is no slurmstepd
    _exit(ended_task() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

#if !defined(__SANITIZE_THREAD__)  // it takes no fork beside threads
// A launcher that was killed is a zombie while its threads still end, and its child has the same parent as before.
TEST(Lifeline, EndsARankWhoseLauncherIsEnding) {
  int answer[2];
  ASSERT_EQ(pipe(answer), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    std::thread([write_end = answer[1]] {
      for (int look = 0; look < 1000 && stat_of(getpid()).state != 'Z'; ++look) usleep(1000);
      const pid_t rank = fork();
      if (rank == 0) {
        setenv("OMPI_COMM_WORLD_RANK", "0", 1);
        lifeline::hold();
        sleep(3);
        _exit(0);
      }
      int status = 0;
      waitpid(rank, &status, 0);
      const char code = static_cast<char>(WEXITSTATUS(status));
      _exit(write(write_end, &code, 1) == 1 ? 0 : 1);
    }).detach();
    syscall(SYS_exit, 0);  // this thread alone
  }
  char code = 0;
  EXPECT_EQ(read(answer[0], &code, 1), 1);
  EXPECT_EQ(static_cast<unsigned char>(code), 130);
  waitpid(launcher, nullptr, 0);
  for (const int end : answer) close(end);
}
#endif

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
