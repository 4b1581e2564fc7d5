// A rendezvous of several processes.
#include "engine/rendezvous/join/job.h"

#include <algorithm>
#include <map>
#include <optional>

#include "engine/rendezvous/host/host_area.h"
#include "engine/rendezvous/join/meeting.h"

namespace busbw {
namespace {

// Processes that share memory, lowest first; the lowest leads.
using Group = std::vector<int>;

std::vector<Group> group_by_host(const std::vector<Member>& members) {
  std::map<std::string, std::size_t> known;
  std::vector<Group> groups;
  for (const Member& member : members) {
    const auto [place, fresh] = known.emplace(member.host_identity, groups.size());
    if (fresh) groups.emplace_back();
    groups[place->second].push_back(member.process);
  }
  return groups;
}

std::vector<Group> split_where(const std::vector<Group>& groups, const std::vector<std::string>& attached) {
  std::vector<Group> result;
  for (const Group& group : groups) {
    if (std::all_of(group.begin(), group.end(), [&](int process) { return attached[process] == "yes"; })) {
      result.push_back(group);
    } else {
      for (const int process : group) result.push_back({process});
    }
  }
  return result;
}

// Removes the name of the shared memory whatever happens.
struct NamedArea {
  std::string name;
  ~NamedArea() {
    if (!name.empty()) HostArea::remove_name(name);
  }
};

class Job final : public Rendezvous {
 public:
  Job(const JoinPlan& plan, const std::string& runtime_folder)
      : placement_(plan.placement), joined_(meet(plan, runtime_folder)) {
    const std::vector<Group> hosts = group_by_host(joined_.spoke->members());
    if (!plan.local_known) {
      const Group& own = group_of(hosts, placement_.process);
      placement_.local_process = static_cast<int>(std::find(own.begin(), own.end(), placement_.process) - own.begin());
      placement_.local_processes = static_cast<int>(own.size());
    }
    share_memory(hosts);
  }

  const Placement& placement() const override { return placement_; }

  std::vector<std::string> all_gather(std::string_view mine) override {
    return joined_.spoke->exchange(Channel::all, Exchange::bytes, size(), mine);
  }

  // Twice: in the first meeting a waiter may have gone to sleep, and it needs tens of microseconds to wake; in the
  // second all are awake, and are released together.
  void barrier() override {
    meet_all(Exchange::barrier, [this] { exchange_between_hosts(Exchange::barrier, ""); });
    meet_all(Exchange::barrier, nullptr);
  }

  std::vector<double> all_gather(double mine) override {
    barrier_->next_numbers()[placement_.process].store(mine, std::memory_order_relaxed);
    meet_all(Exchange::numbers, [this] { fill_numbers_of_other_hosts(); });
    std::vector<double> all(size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = barrier_->last_numbers()[i].load(std::memory_order_relaxed);
    return all;
  }

  void announce(const Failure& failure) noexcept override { joined_.spoke->announce(failure); }
  const Failure* failure() const noexcept override { return joined_.spoke->failure(); }
  void on_failure(std::function<void(const Failure&)> action) override { joined_.spoke->on_failure(std::move(action)); }
  void leave() override { joined_.spoke->leave(); }
  StrangerCounts strangers() const override { return joined_.hub ? joined_.hub->strangers() : StrangerCounts{}; }

 private:
  std::size_t size() const { return static_cast<std::size_t>(placement_.processes); }

  static const Group& group_of(const std::vector<Group>& groups, int process) {
    for (const Group& group : groups) {
      if (std::find(group.begin(), group.end(), process) != group.end()) return group;
    }
    throw Error(ExitCode::internal, "A process of the job belongs to no host");
  }

  // The leader of each host makes the area, the others attach; where one cannot, a named area is tried, and where that
  // fails too, the processes of that host go over the network like those of several hosts.
  void share_memory(const std::vector<Group>& hosts) {
    std::optional<HostArea> area;
    std::vector<std::string> attached;
    for (const HostArea::Kind kind : {HostArea::Kind::unnamed, HostArea::Kind::named}) {
      attached = try_to_share(kind, group_of(hosts, placement_.process), area);
      // All know who is attached, so all stop at the same kind.
      if (std::all_of(attached.begin(), attached.end(), [](const std::string& word) { return word == "yes"; })) break;
    }
    groups_ = split_where(hosts, attached);
    sharing_ = group_of(groups_, placement_.process);
    if (sharing_.size() == 1) area = HostArea(1, placement_.processes);
    area->close_door();
    const auto local = std::find(sharing_.begin(), sharing_.end(), placement_.process) - sharing_.begin();
    barrier_.emplace(std::move(*area), static_cast<int>(local), static_cast<int>(sharing_.size()));
  }

  // "yes" or "no" of each process: whether it has an area of this kind. One that is alone on its host needs none.
  std::vector<std::string> try_to_share(HostArea::Kind kind, const Group& own, std::optional<HostArea>& area) {
    const int own_size = static_cast<int>(own.size());
    const bool leads = own.front() == placement_.process;
    area.reset();
    NamedArea named;
    const std::string nonce = random_bytes(32);
    if (leads && own_size > 1) {
      attempt([&] { area = HostArea::create(kind, own_size, placement_.processes, named.name, nonce); });
    }
    const auto offers = setup_exchange(area ? nonce + named.name : "");
    const std::string& offer = offers[static_cast<std::size_t>(own.front())];
    if (!leads && offer.size() > nonce.size()) {
      attempt([&] {
        area =
            HostArea::open(own_size, placement_.processes, offer.substr(nonce.size()), offer.substr(0, nonce.size()));
      });
    }
    return setup_exchange(area || own_size == 1 ? "yes" : "no");
  }

  template <typename Action>
  static void attempt(const Action& action) {
    try {
      action();
    } catch (const Error&) {
      // No shared memory here: the network does it, more slowly.
    }
  }

  std::vector<std::string> setup_exchange(const std::string& mine) {
    return joined_.spoke->exchange(Channel::all, Exchange::setup, size(), mine);
  }

  std::vector<std::string> exchange_between_hosts(Exchange kind, const std::string& mine) {
    if (groups_.size() == 1) return {};
    return joined_.spoke->exchange(Channel::leaders, kind, groups_.size(), mine);
  }

  void fill_numbers_of_other_hosts() {
    std::atomic<double>* numbers = barrier_->last_numbers();
    std::string mine;
    for (const int process : sharing_) {
      const double number = numbers[process].load(std::memory_order_relaxed);
      mine.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    // The leaders' parts come in the order of their processes, which is the order of the groups.
    const std::vector<std::string> parts = exchange_between_hosts(Exchange::numbers, mine);
    for (std::size_t g = 0; g < parts.size(); ++g) {
      for (std::size_t i = 0; i < groups_[g].size() && (i + 1) * sizeof(double) <= parts[g].size(); ++i) {
        double number = 0;
        std::copy_n(parts[g].data() + i * sizeof number, sizeof number, reinterpret_cast<char*>(&number));
        numbers[groups_[g][i]].store(number, std::memory_order_relaxed);
      }
    }
  }

  void meet_all(Exchange kind, const std::function<void()>& across_hosts) {
    const auto deadline = Clock::now() + wait_limit;
    bool saw_left = false;
    const auto poll = [&] {
      check();
      // Only whom this group shares memory with: another host may have passed, and have left, before this host's leader
      // releases it. Who leaves too early there is missed by its own group, or by our leader in the exchange. Seen
      // twice, with a look at the barrier in between: whoever left after this meeting had released us before.
      if (const int gone = joined_.spoke->left_among(sharing_); gone >= 0 && std::exchange(saw_left, true))
        joined_.spoke->throw_left(gone);
      if (Clock::now() > deadline) throw_late(kind);
    };
    barrier_->meet(across_hosts, std::ref(poll));
  }

  [[noreturn]] void throw_late(Exchange kind) const {
    throw Error(ExitCode::timeout, format("Process %d waited %ld s for the others in %s; one of them hangs",
                                          placement_.process, static_cast<long>(wait_limit.count()),
                                          kind == Exchange::barrier ? "a barrier" : "an exchange of numbers"));
  }

  Placement placement_;
  Joined joined_;
  std::vector<Group> groups_;
  Group sharing_;  // this process's
  std::optional<HostBarrier> barrier_;
};

}  // namespace

std::unique_ptr<Rendezvous> join_job(const Environment& environment, const RendezvousOptions& options) {
  const JoinPlan plan = plan_join(environment, options);
  if (plan.placement.processes == 1) return Rendezvous::alone(plan.placement);
  const auto folder = environment.find("XDG_RUNTIME_DIR");
  return std::make_unique<Job>(plan, folder == environment.end() ? "" : folder->second);
}

std::unique_ptr<Rendezvous> Rendezvous::join(const RendezvousOptions& options) {
  return join_job(current_environment(), options);
}

}  // namespace busbw
