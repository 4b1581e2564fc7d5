// Whom BUSBW_PARENT names, and what /proc says of processes.
#include "engine/platform/lifeline.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "busbw/other_threads.h"
#include "engine/platform/first_line.h"
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

// One that was killed before another could look is missing among the tasks that Slurm lists.
TEST(TasksOfAStep, ThatEndedBeforeOneLookedAreMissed) {
  for (const auto& [listed, code] : {std::pair{"0,1", 0}, {"0", 1}, {"", 1}}) {
    const pid_t rank = fork();
    if (rank == 0) {
      setenv("SLURM_PROCID", "0", 1);
      setenv("SLURM_GTIDS", listed, 1);
      unsetenv("BUSBW_RANK");
      remember_tasks(command_of(getppid()));
      _exit(ended_task() ? 0 : 1);
    }
    int status = 0;
    waitpid(rank, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), code) << listed;
  }
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

TEST(Threads, ThatAreAboutToEndDoNotKeepAProcessAlive) {
  const auto stat = [](const char* state, unsigned long flags, unsigned long pending) {
    return "7 (a name) with ) in it) " + std::string(state) + " 1 7 7 0 -1 " + std::to_string(flags) +
           " 0 0 0 0 0 0 0 0 20 0 2 0 345 0 0 0 0 0 0 0 0 " + std::to_string(pending) + " 0 0 0 0 0 0 17 0";
  };
  EXPECT_EQ(state_of_thread(stat("S", 0x400040, 0)), 'S');
  EXPECT_EQ(state_of_thread(stat("T", 0x400040, 1ul << 14)), 'T') << "a SIGTERM may be handled";
  EXPECT_EQ(state_of_thread(stat("S", 0x400040, 1ul << 8)), thread_ended) << "SIGKILL is pending";
  EXPECT_EQ(state_of_thread(stat("R", 0x400044, 0)), thread_ended) << "it is in exit";
  EXPECT_EQ(state_of_thread(stat("D", 0x400440, 0)), thread_ended) << "a signal has killed it";
  EXPECT_EQ(state_of_thread(stat("X", 0, 0)), thread_ended);
  EXPECT_EQ(state_of_thread(""), thread_ended);
  EXPECT_EQ(state_of_thread("7 (a) "), thread_ended);
}

#if !defined(__SANITIZE_THREAD__)  // it takes no fork beside threads
// A program may end its first thread (pthread_exit in main) and go on in others: /proc shows it as a zombie.
TEST(Process, WhoseFirstThreadHasEndedLivesUntilItsLastDoes) {
  const pid_t child = fork();
  if (child == 0) {
    std::thread([] { pause(); }).detach();
    syscall(SYS_exit, 0);  // this thread alone
  }
  const auto start = stat_of(child).start;
  const std::string stat = "/proc/" + std::to_string(child) + "/stat";
  for (int look = 0; look < 5000 && first_line(stat).find(") Z ") == std::string::npos; ++look) usleep(1000);
  ASSERT_NE(first_line(stat).find(") Z "), std::string::npos);
  EXPECT_TRUE(stat_of(child).lives());
  EXPECT_FALSE(has_ended(child, start));
  kill(child, SIGSTOP);
  for (int look = 0; look < 5000 && !stat_of(child).stopped(); ++look) usleep(1000);
  EXPECT_TRUE(stat_of(child).stopped());
  kill(child, SIGKILL);
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  EXPECT_TRUE(has_ended(child, start));
  waitpid(child, nullptr, 0);
}

// A launcher whose first thread has ended still waits for its rank.
TEST(Lifeline, DoesNotEndARankWhoseLauncherGoesOnInAnotherThread) {
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
        sleep(1);
        _exit(7);
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
  EXPECT_EQ(static_cast<unsigned char>(code), 7);
  waitpid(launcher, nullptr, 0);
  for (const int end : answer) close(end);
}
#endif

// A launcher ended before its rank could watch it, under a process that adopts orphans while the shell lives on: what
// systemd, tini -s or a container's shim look like.
TEST(Lifeline, EndsARankThatWasAdopted) {
  const pid_t reaper = fork();
  if (reaper == 0) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t adopter = getpid(), shell = fork();
    if (shell == 0) {
      setsid();
      if (fork() == 0) {  // the launcher
        if (fork() != 0) _exit(0);
        for (int look = 0; look < 5000 && getppid() != adopter; ++look) usleep(1000);
        setenv("OMPI_COMM_WORLD_RANK", "0", 1);
        lifeline::hold();
        _exit(0);
      }
      for (;;) pause();
    }
    int status = 0;
    const pid_t rank = waitpid(-1, &status, 0);
    kill(shell, SIGKILL);
    _exit(rank > 0 && rank != shell ? WEXITSTATUS(status) : 1);
  }
  int status = 0;
  waitpid(reaper, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 130);
}

// Runs one test of this file as process 1 of a PID namespace of its own, and gives its exit code; nothing where it
// cannot be had.
std::optional<int> code_as_first_process(const char* filter) {
  if (getuid() != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) _exit(77);
    const pid_t first = fork();
    if (first == 0) {
      mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
      if (mount("proc", "/proc", "proc", 0, nullptr) != 0) _exit(77);
      // /proc shows the variables that a program was started with.
      execl("/proc/self/exe", "lifeline_test", filter, nullptr);
      _exit(77);
    }
    int status = 0;
    waitpid(first, &status, 0);
    _exit(WEXITSTATUS(status));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77) return std::nullopt;
  return WEXITSTATUS(status);
}

// The same where the leader of the adopter's session is outside of the PID namespace, as after kubectl exec: the
// adopter is in session 0.
TEST(Lifeline, EndsARankThatSomebodyInSessionZeroAdopted) {
  const std::optional<int> code = code_as_first_process("--gtest_filter=Lifeline.EndsARankThatWasAdopted");
  if (!code) GTEST_SKIP() << "no namespaces here, or not root";
  EXPECT_EQ(*code, 0);
}

// Process 1 of a container got the launcher's variables from without and starts the rank itself.
TEST(Lifeline, LeavesARankAloneThatProcessOneOfAContainerStarts) {
  setenv("RANK", "0", 1);
  const std::optional<int> code = code_as_first_process("--gtest_filter=Lifeline.InAContainer");
  unsetenv("RANK");
  if (!code) GTEST_SKIP() << "no namespaces here, or not root";
  EXPECT_EQ(*code, 9);
}

// A part of the test above.
TEST(Lifeline, InAContainer) {
  if (getpid() != 1) return;
  const pid_t rank = fork();
  if (rank == 0) {
    lifeline::hold();
    _exit(9);
  }
  int status = 0;
  waitpid(rank, &status, 0);
  _exit(WEXITSTATUS(status));
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

// What a proxy does while its rank runs.
enum class Proxy { only_waits, polls, waits_for_another_first };

// A proxy of that name that ends as its rank does: by the lifeline, which sees that it only waits for the rank, or by
// itself after 4 s.
pid_t proxy_of_that_name(const char* proxy_name, Proxy does, bool pmi_is_open) {
  const pid_t proxy = fork();
  if (proxy == 0) {
    prctl(PR_SET_NAME, proxy_name);
    int ends[2];
    if (pipe(ends) != 0) _exit(99);
    const pid_t rank = fork();
    if (rank == 0) {
      setenv("PMI_RANK", "0", 1);
      setenv("PMI_FD", std::to_string(pmi_is_open ? ends[0] : 99).c_str(), 1);
      lifeline::hold();
      sleep(4);
      _exit(7);
    }
    close(ends[1]);
    pollfd end{.fd = ends[0], .events = POLLIN, .revents = 0};  // closed with the rank
    if (does == Proxy::waits_for_another_first) {
      const pid_t another = fork();
      if (another == 0) {
        usleep(900'000);
        _exit(0);
      }
      waitpid(another, nullptr, 0);
    }
    if (does != Proxy::only_waits) poll(&end, 1, 30'000);
    int status = 0;
    waitpid(rank, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
  }
  return proxy;
}

int exit_code_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(DeafProxy, IsLeftByItsRanksAndNoOther) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "skipped: the thread sanitizer gives the proxy a second thread, which hydra's has not";
#endif
  const pid_t deaf = proxy_of_that_name("hydra_pmi_proxy", Proxy::only_waits, true);
  const pid_t polling = proxy_of_that_name("hydra_pmi_proxy", Proxy::polls, true);
  const pid_t busy = proxy_of_that_name("hydra_pmi_proxy", Proxy::waits_for_another_first, true);
  const pid_t unused = proxy_of_that_name("hydra_pmi_proxy", Proxy::only_waits, false);
  const pid_t wrapper = proxy_of_that_name("hydra_wrap.sh", Proxy::only_waits, true);
  EXPECT_EQ(exit_code_of(deaf), 130);
  EXPECT_EQ(exit_code_of(polling), 7) << "it sleeps in poll, and may answer";
  EXPECT_EQ(exit_code_of(busy), 7) << "it waited for another child for a moment";
  EXPECT_EQ(exit_code_of(unused), 7) << "no rank speaks to it";
  EXPECT_EQ(exit_code_of(wrapper), 7) << "it waits for its program";
}

}  // namespace
}  // namespace busbw
