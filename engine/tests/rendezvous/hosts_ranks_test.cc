// Several hosts, played by namespaces of this machine: by host name alone, and with networks of their own that can be
// unplugged.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>

#include "engine/tests/rendezvous/ranks.h"

namespace busbw {
namespace {

using namespace testing;

bool rename_this_host(const std::string& name) {
  return unshare(CLONE_NEWUTS) == 0 && sethostname(name.c_str(), name.size()) == 0;
}

bool may_rename_hosts() {
  return Child([] { return std::string(rename_this_host("elsewhere") ? "yes" : "no"); }).said() == "yes";
}

TEST(SeveralHosts, GatherAndWaitAsOneWould) {
  if (!may_rename_hosts()) GTEST_SKIP() << "only root may give a process a host name of its own";
  TestJob job(5);
  std::vector<Child> children;
  for (int process = 0; process < 5; ++process) {
    Environment variables = job.environment(process);
    variables.erase("BUSBW_LOCAL_RANK");
    variables.erase("BUSBW_LOCAL_SIZE");
    children.emplace_back([=] {
      rename_this_host(process % 2 == 0 ? "even" : "odd");  // so neighbours are on different hosts
      const auto r = join_job(variables);
      for (int round = 0; round < 300; ++round) {
        const auto numbers = r->all_gather(round * 10.0 + process);
        for (int i = 0; i < 5; ++i) {
          if (numbers[static_cast<std::size_t>(i)] != round * 10.0 + i) return format("wrong in round %d", round);
        }
        r->barrier();
      }
      const auto names = r->all_gather(std::to_string(process));
      r->leave();
      return format("local %d/%d of %s", r->placement().local_process, r->placement().local_processes,
                    names[4].c_str());
    });
  }
  job.listener.socket.close();
  const std::vector<std::string> expected{"local 0/3 of 4", "local 0/2 of 4", "local 1/3 of 4", "local 1/2 of 4",
                                          "local 2/3 of 4"};
  for (std::size_t process = 0; process < 5; ++process) EXPECT_EQ(children[process].said(100s), expected[process]);
}

// The process of one host passes a barrier and leaves while the leader of the other host stands still between its
// exchange with that one and the release of its own host.
TEST(SeveralHosts, AreNotLeftByWhoPassedTheirBarrierFirst) {
  if (!may_rename_hosts()) GTEST_SKIP() << "only root may give a process a host name of its own";
  constexpr int processes = 4, leader = 1;
  TestJob job(processes);
  Arrivals at_barrier, may_go, passed;
  std::vector<Child> children;
  for (int process = 0; process < processes; ++process) {
    children.emplace_back([&, process] {
      rename_this_host(process == 0 ? "quick" : "slow");
      const auto r = join_job(job.environment(process));
      at_barrier.arrive();
      if (process == 0 && !may_go.all(1)) return std::string("was never let go");
      r->barrier();
      if (process == 0) passed.arrive();
      r->leave();
      return std::string("met");
    });
  }
  job.listener.socket.close();
  ASSERT_TRUE(at_barrier.all(processes));
  std::this_thread::sleep_for(300ms);  // all of the slow host wait in the barrier
  children[leader].kill(SIGSTOP);
  may_go.arrive();
  EXPECT_TRUE(passed.all(1, 1s)) << "the leader had not sent its part yet: nothing was tried";
  std::this_thread::sleep_for(200ms);  // its farewell reaches those who still wait
  children[leader].kill(SIGCONT);
  for (Child& child : children) EXPECT_EQ(child.said(), "met");
}

TEST(SeveralHosts, AllHearOfOneThatLeftBeforeTheirBarrier) {
  if (!may_rename_hosts()) GTEST_SKIP() << "only root may give a process a host name of its own";
  constexpr int processes = 4;
  for (const int leaver : {0, 2, 3}) {  // alone on its host, one of two, the last of three
    TestJob job(processes);
    std::vector<Child> children;
    for (int process = 0; process < processes; ++process) {
      children.emplace_back([&, process] {
        rename_this_host(process == 0 ? "quick" : "slow");
        const auto r = join_job(job.environment(process));
        if (process != leaver) r->barrier();
        r->leave();
        return std::string("left");
      });
    }
    job.listener.socket.close();
    int told = 0;
    for (int process = 0; process < processes; ++process) {
      const std::string said = children[static_cast<std::size_t>(process)].said(20s);
      EXPECT_EQ(said == "left", process == leaver) << said;
      EXPECT_NE(said, "hangs") << "process " << process << " waits for process " << leaver;
      told +=
          said.find(format("process %d ", leaver)) != std::string::npos && said.find("has left the job") != said.npos;
    }
    EXPECT_GE(told, 1) << leaver;
  }
}

// Alone on their hosts they share no memory: the exchange itself has to tell.
TEST(SeveralHosts, OfOneProcessEachHearOfOneThatLeftBeforeTheirBarrier) {
  if (!may_rename_hosts()) GTEST_SKIP() << "only root may give a process a host name of its own";
  constexpr int processes = 3, leaver = 2;
  TestJob job(processes);
  std::vector<Child> children;
  for (int process = 0; process < processes; ++process) {
    children.emplace_back([&, process] {
      rename_this_host("host" + std::to_string(process));
      const auto r = join_job(job.environment(process));
      if (process != leaver) r->barrier();
      r->leave();
      return std::string("left");
    });
  }
  job.listener.socket.close();
  EXPECT_EQ(children[leaver].said(20s), "left");
  for (const int process : {0, 1}) {
    const std::string said = children[static_cast<std::size_t>(process)].said(20s);
    EXPECT_NE(said.find("process 2 "), std::string::npos) << process << ": " << said;
    EXPECT_NE(said.find("has left the job"), std::string::npos) << process << ": " << said;
  }
}

TEST(SeveralHosts, NameTheHostThatDidNotCome) {
  TestJob job(2);
  Environment variables = job.environment(0);
  variables["BUSBW_JOIN_TIMEOUT"] = "1";
  variables["BUSBW_HOSTS"] = "far-away.example";
  Child zero = TestJob::start(variables, [](Rendezvous&) { return std::string("met"); });
  const std::string said = zero.said();
  EXPECT_NE(said.find("process 1; nobody came from host far-away.example"), std::string::npos) << said;
}

// Two network namespaces joined by a cable.
class Networks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!run("ip netns add " + a_) || !run("ip netns add " + b_)) {
      GTEST_SKIP() << "this user may not make network namespaces (ip netns add)";
    }
    made_ = run("ip -n " + a_ + " link add cable type veth peer name cable netns " + b_) &&
            run("ip -n " + a_ + " addr add 10.77.0.1/24 dev cable") &&
            run("ip -n " + b_ + " addr add 10.77.0.2/24 dev cable") && run("ip -n " + a_ + " link set cable up") &&
            run("ip -n " + b_ + " link set cable up");
    if (!made_) GTEST_SKIP() << "this kernel joins no namespaces by a veth pair";
  }
  void TearDown() override {
    run("ip netns del " + a_);
    run("ip netns del " + b_);
  }

  static bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

  static void enter(const std::string& network, const std::string& host) {
    const FileDescriptor space(open(("/run/netns/" + network).c_str(), O_RDONLY | O_CLOEXEC));
    if (setns(space.get(), CLONE_NEWNET) != 0 || !rename_this_host(host)) throw std::runtime_error("cannot enter");
  }

  Child start(int process, const std::function<std::string(Rendezvous&)>& work, Environment more = {}) const {
    Environment variables{{"BUSBW_RANK", std::to_string(process)}, {"BUSBW_WORLD_SIZE", "2"},
                          {"BUSBW_ADDRESS", "10.77.0.1:23456"},    {"BUSBW_SECRET", "over the cable"},
                          {"BUSBW_HOSTS", "host-a,host-b"},        {"BUSBW_JOIN_TIMEOUT", "10"}};
    for (const auto& [name, value] : more) variables[name] = value;
    return Child([=, this] {
      enter(process == 0 ? a_ : b_, process == 0 ? "host-a" : "host-b");
      const auto rendezvous = join_job(variables);
      return work(*rendezvous);
    });
  }

  std::string a_ = "busbw-a-" + std::to_string(getpid());
  std::string b_ = "busbw-b-" + std::to_string(getpid());
  bool made_ = false;
};

TEST_F(Networks, MeetOverTheChosenInterface) {
  const auto work = [](Rendezvous& r) {
    r.barrier();
    const auto numbers = r.all_gather(1.0 + r.placement().process);
    r.leave();
    return format("%g", numbers[0] + numbers[1]);
  };
  Child zero = start(0, work, {{"BUSBW_INTERFACE", "cable"}}), one = start(1, work);
  EXPECT_EQ(zero.said(), "3");
  EXPECT_EQ(one.said(), "3");
  const std::string said = start(0, work, {{"BUSBW_INTERFACE", "ib7"}}).said();
  EXPECT_NE(said.find("BUSBW_INTERFACE is 'ib7', but no interface of that name"), std::string::npos) << said;
}

TEST_F(Networks, ThatAreUnpluggedNameTheLostHostWithinTenSeconds) {
  Arrivals met;
  const auto work = [&met](Rendezvous& r) {
    r.barrier();
    met.arrive();
    try {
      if (r.placement().process == 0) std::this_thread::sleep_for(300ms);
      for (;;) r.barrier();
    } catch (const PeerFailure& lost) {
      return std::string(lost.what());
    }
  };
  Child zero = start(0, work), one = start(1, work);
  ASSERT_TRUE(met.all(2));
  std::this_thread::sleep_for(1200ms);  // after a sign of life or two
  ASSERT_TRUE(run("ip -n " + b_ + " link set cable down"));
  const auto unplugged = Clock::now();
  const std::string from_a = zero.said(), from_b = one.said();
  EXPECT_LT(Clock::now() - unplugged, 10s);
  EXPECT_NE(from_a.find("on host host-b) was lost: no sign of life for 4 s"), std::string::npos) << from_a;
  EXPECT_NE(from_b.find("on host host-a) was lost: no sign of life for 4 s"), std::string::npos) << from_b;
}

TEST(Jobs, OfOneMachineDoNotMix) {
  std::vector<Child> children;
  for (int job = 0; job < 4; ++job) {
    for (int process = 0; process < 2; ++process) {
      const Environment variables{{"OMPI_COMM_WORLD_RANK", std::to_string(process)},
                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                  {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(process)},
                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                  {"PMIX_NAMESPACE", format("test-%d-%d", getpid(), job)}};
      children.push_back(TestJob::start(variables, [job](Rendezvous& r) {
        const auto jobs = r.all_gather(std::to_string(job));
        r.leave();
        return jobs[0] + jobs[1];
      }));
    }
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    EXPECT_EQ(children[i].said(), std::to_string(i / 2) + std::to_string(i / 2));
  }
}

TEST(Jobs, ThatWereKilledDoNotBlockTheNextOfTheSameName) {
  const std::string name = format("test-%d-again", getpid());
  const auto variables = [&](int process) {
    return Environment{{"OMPI_COMM_WORLD_RANK", std::to_string(process)},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(process)},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                       {"PMIX_NAMESPACE", name},
                       {"BUSBW_JOIN_TIMEOUT", "15"}};
  };
  const auto meet = [](Rendezvous& r) {
    r.leave();
    return std::string("met");
  };
  {
    const Child stale = TestJob::start(variables(0), meet);  // publishes its port and is killed here
    std::this_thread::sleep_for(300ms);
  }
  Child one = TestJob::start(variables(1), meet);
  std::this_thread::sleep_for(300ms);
  Child zero = TestJob::start(variables(0), meet);
  EXPECT_EQ(one.said(), "met");
  EXPECT_EQ(zero.said(), "met");
}

TEST(Jobs, WhosePortIsTakenSaySoAtOnce) {
  const Listener other = *listen_at("127.0.0.1", 0, "");
  TestJob job(2);
  Environment variables = job.environment(0);
  variables.erase("BUSBW_LISTEN_FD");
  variables["BUSBW_ADDRESS"] = "127.0.0.1:" + std::to_string(other.port);
  const auto start = Clock::now();
  const std::string said = TestJob::start(variables, [](Rendezvous&) { return std::string("met"); }).said();
  EXPECT_NE(said.find(format("port %d is in use by another program", other.port)), std::string::npos) << said;
  EXPECT_LT(Clock::now() - start, 10s);
}

}  // namespace
}  // namespace busbw
