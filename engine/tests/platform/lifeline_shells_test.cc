// Ranks below shells and launchers that were killed, left their session, ignore a hang-up or blocked signals.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "engine/platform/lifeline.h"

namespace busbw {
namespace {

// A parent that leaves its session after it has started a rank is no adopter.
TEST(Lifeline, LeavesARankAloneWhoseParentWentToASessionOfItsOwn) {
  const pid_t shell = fork();
  if (shell == 0) {
    setsid();
    int ready[2];
    if (pipe(ready) != 0) _exit(1);
    const pid_t launcher = fork();
    if (launcher == 0) {
      const pid_t rank = fork();
      if (rank == 0) {
        char byte = 0;
        if (read(ready[0], &byte, 1) != 1) _exit(1);
        setenv("OMPI_COMM_WORLD_RANK", "0", 1);
        lifeline::hold();
        _exit(9);
      }
      setpgid(0, 0);
      if (setsid() < 0 && (setpgid(0, getppid()) != 0 || setsid() < 0)) _exit(2);
      if (write(ready[1], "x", 1) != 1) _exit(1);
      int status = 0;
      waitpid(rank, &status, 0);
      _exit(WEXITSTATUS(status));
    }
    int status = 0;
    waitpid(launcher, &status, 0);
    _exit(WEXITSTATUS(status));
  }
  int status = 0;
  waitpid(shell, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 9);
}

// A wrapper between a shell and its launcher lost that shell before the rank could look.
TEST(Lifeline, TellsAWrapperThatLostItsShellFromADaemon) {
  using std::chrono::seconds;
  for (const char* command : {"sh", "timeout", "make", "perl", "a program of theirs"}) {
    EXPECT_TRUE(had_a_shell(command, true, seconds(0))) << command;
    EXPECT_FALSE(had_a_shell(command, true, seconds(60))) << command;
    EXPECT_FALSE(had_a_shell(command, false, seconds(0))) << command;
  }
  EXPECT_TRUE(had_a_shell("sudo", false, seconds(0)));
  for (const char* command : {"mpirun", "mpiexec.hydra", "python3", "torchrun", "busbw"}) {
    EXPECT_TRUE(had_a_shell(command, true, seconds(60))) << command;
    EXPECT_FALSE(had_a_shell(command, true, seconds(3600))) << command;
  }
  for (const char* command : {"slurmstepd", "orted", "shepherd", "sge_shepherd", "sshd", "systemd", "hydra_pmi_proxy"})
    EXPECT_FALSE(had_a_shell(command, true, seconds(0))) << command;
}

TEST(Lifeline, EndsARankWhoseShellWasKilledAboveAnotherShell) {
  int answer[2];
  ASSERT_EQ(pipe(answer), 0);
  const pid_t shell = fork();
  if (shell == 0) {
    setsid();
    if (fork() == 0) {
      prctl(PR_SET_NAME, "wrapper");  // the wrapper
      const pid_t rank = fork();
      if (rank == 0) {
        const int session = getsid(0);
        for (int look = 0; look < 5000 && kill(session, 0) == 0; ++look) usleep(1000);
        setenv("OMPI_COMM_WORLD_RANK", "0", 1);
        lifeline::hold();
        _exit(9);
      }
      int status = 0;
      waitpid(rank, &status, 0);
      const char code = static_cast<char>(WEXITSTATUS(status));
      _exit(write(answer[1], &code, 1) == 1 ? 0 : 1);
    }
    _exit(0);
  }
  waitpid(shell, nullptr, 0);
  char code = 0;
  EXPECT_EQ(read(answer[0], &code, 1), 1);
  EXPECT_EQ(static_cast<unsigned char>(code), 130);
  for (const int end : answer) close(end);
}

// A launcher that was told to outlive its terminal (nohup) keeps its ranks when the shell above it has ended.
TEST(Lifeline, LeavesARankAloneWhoseLauncherOutlivesItsShell) {
  for (const bool outlives : {true, false}) {
    int answer[2];
    ASSERT_EQ(pipe(answer), 0);
    const pid_t shell = fork();
    if (shell == 0) {
      setsid();
      int ready[2];
      if (pipe(ready) != 0) _exit(1);
      if (fork() == 0) {
        signal(SIGHUP, outlives ? SIG_IGN : SIG_DFL);
        const pid_t rank = fork();
        if (rank == 0) {
          signal(SIGHUP, SIG_DFL);
          setenv("OMPI_COMM_WORLD_RANK", "0", 1);
          lifeline::hold();
          if (write(ready[1], "r", 1) != 1) _exit(1);
          sleep(2);
          _exit(9);
        }
        int status = 0;
        waitpid(rank, &status, 0);
        const char code = static_cast<char>(WEXITSTATUS(status));
        _exit(write(answer[1], &code, 1) == 1 ? 0 : 1);
      }
      char byte = 0;
      _exit(read(ready[0], &byte, 1) == 1 ? 0 : 1);
    }
    waitpid(shell, nullptr, 0);
    char code = 0;
    EXPECT_EQ(read(answer[0], &code, 1), 1);
    EXPECT_EQ(static_cast<unsigned char>(code), outlives ? 9 : 130);
    for (const int end : answer) close(end);
  }
}

// Whoever started a rank may have blocked the signals that end it.
TEST(Lifeline, TakesSignalsThatWereBlocked) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t rank = fork();
    if (rank == 0) {
      sigset_t all;
      sigfillset(&all);
      sigprocmask(SIG_SETMASK, &all, nullptr);
      for (const int each : {SIGTERM, SIGINT, SIGHUP}) signal(each, SIG_DFL);
      lifeline::hold();
      if (write(ready[1], "r", 1) != 1) _exit(1);
      sleep(5);
      _exit(9);
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    kill(rank, number);
    int status = 0;
    waitpid(rank, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << number;
    for (const int end : ready) close(end);
  }
}

}  // namespace
}  // namespace busbw
