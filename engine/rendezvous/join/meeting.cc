// Acts on a join plan.
#include "engine/rendezvous/join/meeting.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "engine/core/version.h"
#include "engine/rendezvous/join/handshake.h"
#include "engine/rendezvous/join/meeting_file.h"
#include "engine/rendezvous/join/pmi1.h"
#include "engine/rendezvous/limits.h"
#include "engine/rendezvous/net/door.h"

namespace busbw {
namespace {

constexpr std::chrono::seconds connect_limit{2};
constexpr std::chrono::seconds name_limit{1};
constexpr std::chrono::seconds knock_limit{5};
constexpr std::chrono::seconds grace{3};  // so that process 0's own sentence, which names who is missing, arrives first
constexpr std::size_t most_advertised = 8;

double in_seconds(std::chrono::milliseconds limit) { return static_cast<double>(limit.count()) / 1e3; }

std::string link_text(const char* path) {
  char text[128] = "";
  const ssize_t length = readlink(path, text, sizeof text - 1);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "";
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// Equal for processes that can share memory through /dev/shm; whether they really can is tried later. Without a
// descriptor to read it by, this process would seem to be on a host of its own.
std::string host_identity() {
  std::string boot;
  errno = 0;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (const int error = errno; boot.empty() && is_shortage(error)) {
    throw Error(ExitCode::internal, format("The rendezvous could not read which host this is: %s%s",
                                           std::strerror(error), shortage_advice(error).c_str()));
  }
  struct stat memory{};
  stat("/dev/shm", &memory);
  return boot + " " + host_name() + " " + link_text("/proc/self/ns/ipc") + " " + std::to_string(memory.st_dev) + ":" +
         std::to_string(memory.st_ino);
}

Member introduce(const Placement& placement) {
  return {.protocol = protocol_version,
          .version = version,
          .process = placement.process,
          .processes = placement.processes,
          .pid = getpid(),
          .host = host_name(),
          .host_identity = host_identity()};
}

std::string random_secret() { return hex(sha256(random_bytes(32))); }

// At a door the kernel says who calls: there the secret only keeps jobs apart.
std::string secret_of(const MeetingPlan& plan, bool by_door) {
  if (!plan.secret.empty()) return plan.secret;
  return by_door ? hex(sha256("door\n" + plan.meeting)) : random_secret();
}

Listener listen_in_range(const std::string& host, const MeetingPlan& plan) {
  const PortRange ports = plan.ports.value_or(PortRange{0, 0});
  for (int port = ports.first; port <= ports.last; ++port) {
    if (auto listener = listen_at(host, port, host == "127.0.0.1" ? "" : plan.interface)) return std::move(*listener);
  }
  throw Error(ExitCode::bad_arguments, format("Every port from %d to %d is in use on this host; widen BUSBW_PORT_RANGE",
                                              ports.first, ports.last));
}

Listener listen_at_endpoints(const MeetingPlan& plan) {
  std::string tried;
  for (const Endpoint& endpoint : plan.endpoints) {
    if (auto listener = listen_at(endpoint.host, endpoint.port, plan.interface)) return std::move(*listener);
    tried.append(tried.empty() ? "" : ", ").append(std::to_string(endpoint.port));
  }
  throw Error(
      ExitCode::bad_arguments,
      format("Process 0 cannot listen: port %s is in use by another program on this host; choose another port in "
             "BUSBW_ADDRESS or BUSBW_PORT",
             tried.c_str()));
}

Listener open_door(const MeetingPlan& plan, bool one_host) {
  if (plan.listen_descriptor) return inherited_listener(*plan.listen_descriptor);
  if (!plan.endpoints.empty()) return listen_at_endpoints(plan);
  return listen_in_range(one_host ? "127.0.0.1" : "", plan);
}

// What the others may try, as "address:port,address:port".
std::string advertised_addresses(const std::string& interface, int port, bool one_host) {
  if (one_host) return to_string({"127.0.0.1", port});
  std::string list;
  std::size_t count = 0;
  for (const SocketAddress& address : interface_addresses(interface)) {
    if (++count > most_advertised) break;
    list.append(list.empty() ? "" : ",").append(to_string({address.text(), port}));
  }
  return list;
}

std::vector<Endpoint> read_addresses(const std::string& list) {
  std::vector<Endpoint> endpoints;
  for (std::size_t start = 0; start < list.size();) {
    const std::size_t comma = std::min(list.find(',', start), list.size());
    endpoints.push_back(parse_endpoint(list.substr(start, comma - start), "The address that mpiexec handed on"));
    start = comma + 1;
  }
  return endpoints;
}

// Waits for the start of the job on a connection whose other end has proved itself.
std::unique_ptr<Spoke> await_start(FileDescriptor socket, FrameReader reader, int process, Clock::time_point deadline) {
  reader.set_limit(result_limit);
  try {
    SiblingWatch siblings(5);
    std::optional<Frame> frame;
    while (!frame && Clock::now() < deadline) {
      frame = wait_frame(socket, reader, std::min(deadline, Clock::now() + heartbeat_interval));
      // Process 0 looks for itself; who waits for it looks for a process 0 that stands still.
      if (const auto stopped = process == 0 ? std::nullopt : siblings.look(Clock::now()))
        throw Error(ExitCode::internal, stopped->sentence);
    }
    if (!frame) {
      throw Error(ExitCode::timeout,
                  "Process 0 answered but never said that all processes had come; look at its messages");
    }
    if (frame->kind == FrameKind::start) {
      return std::make_unique<Spoke>(std::move(socket), std::move(reader), read_start(frame->body), process);
    }
    if (frame->kind == FrameKind::refusal) throw Error(ExitCode::bad_arguments, frame->body);
    if (frame->kind == FrameKind::failure) {
      const Failure failure = read_failure(frame->body);
      throw Error(failure.code, failure.sentence);
    }
    throw WireError("it sent something unexpected");
  } catch (const WireError& error) {
    throw Error(ExitCode::internal,
                format("Process 0 was lost while the job was gathering: %s; look at its messages", error.what()));
  }
}

Joined meet_as_process_0(const JoinPlan& plan, const std::string& runtime_folder, Clock::time_point deadline) {
  const MeetingPlan& how = plan.meeting;
  const bool one_host = !how.meeting.empty() || plan.placement.local_processes == plan.placement.processes;
  const Member self = introduce(plan.placement);  // before the others take what descriptors there are
  FileDescriptor door;
  if (!how.meeting.empty()) door = listen_at_door(door_name(runtime_folder, how.meeting));
  const bool by_door = door.open();
  const std::string secret = secret_of(how, by_door);
  Listener listener = by_door ? Listener{.socket = std::move(door)} : open_door(how, one_host);
  const int port = listener.port;
  auto [near_end, far_end] = socket_pair();
  Joined joined;
  joined.hub = std::make_unique<Hub>(std::move(listener), std::move(far_end),
                                     HubOptions{.processes = plan.placement.processes,
                                                .secret = secret,
                                                .hosts = how.hosts,
                                                .join_deadline = deadline,
                                                .join_limit = how.join_limit});
  PublishedMeeting published;
  if (!how.meeting.empty() && !by_door) {
    const std::string folder = private_folder(runtime_folder);
    sweep_abandoned(folder);
    published = PublishedMeeting(meeting_path(folder, how.meeting), {port, secret});
  } else if (how.pmi_descriptor) {
    Pmi1 pmi(*how.pmi_descriptor, deadline);
    pmi.put("busbw-addresses", advertised_addresses(how.interface, port, one_host));
    pmi.put("busbw-secret", secret);
    pmi.barrier();
  }
  FrameReader reader(greeting_limit);
  std::string why;
  if (knock(near_end, reader, secret, self, deadline, why) != Knock::welcome) {
    throw Error(ExitCode::internal, "Process 0 could not join its own job: " + why);
  }
  joined.spoke = await_start(std::move(near_end), std::move(reader), 0, deadline + grace);
  return joined;
}

// Finds process 0 at the addresses and in the file where it may be, again and again until the deadline.
class Search {
 public:
  Search(const JoinPlan& plan, const std::string& runtime_folder, Clock::time_point deadline)
      : how_(plan.meeting), self_(introduce(plan.placement)), deadline_(deadline) {
    if (!how_.meeting.empty()) {
      door_ = door_name(runtime_folder, how_.meeting);
      runtime_folder_ = runtime_folder;
    }
    if (how_.pmi_descriptor && how_.endpoints.empty()) {
      Pmi1 pmi(*how_.pmi_descriptor, deadline);
      pmi.barrier();
      how_.endpoints = read_addresses(pmi.get("busbw-addresses"));
      how_.secret = pmi.get("busbw-secret");
    }
  }

  std::unique_ptr<Spoke> run() {
    auto pause = std::chrono::milliseconds(5);
    for (;;) {
      throw_where_descriptors_are_short();
      if (!door_.empty()) {
        try_doors();
        if (!found_.open()) try_file();
      }
      name_known_ = false;
      for (const Endpoint& endpoint : how_.endpoints) {
        if (!found_.open()) try_endpoint(endpoint, how_.secret);
      }
      if (name_known_) known_ = Clock::now();
      // Process 0 counts its own limit from its own start, and its sentence says more than ours.
      if (found_.open()) {
        const auto limit = Clock::now() + how_.join_limit + grace;
        return await_start(std::move(found_), std::move(reader_), self_.process, limit);
      }
      if (Clock::now() + pause >= deadline_) throw_not_found();
      throw_where_no_name_is_known();
      look_for_stopped();
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(250));
    }
  }

 private:
  void try_doors() {
    for (int place = 0; place < door_places && !found_.open(); ++place) {
      FileDescriptor socket = connect_to_door(door_, place);
      if (socket.open()) try_knock(std::move(socket), secret_of(how_, true));
    }
  }

  void try_file() {
    const std::string folder = existing_private_folder(runtime_folder_);
    if (folder.empty()) return;
    const std::string path = meeting_path(folder, how_.meeting);
    const auto meeting = read_meeting(path);
    if (!meeting) return;
    try_endpoint({"127.0.0.1", meeting->port}, meeting->secret);
    if (!found_.open()) remove_if_abandoned(path);
  }

  void look_for_stopped() {
    if (const auto stopped = siblings_.look(Clock::now())) throw Error(ExitCode::internal, stopped->sentence);
  }

  // One that stands still answers nothing: the others look for it meanwhile.
  void try_knock(FileDescriptor socket, const std::string& secret) {
    FrameReader reader(greeting_limit);
    std::string stranger;
    const auto until = std::min(deadline_, Clock::now() + knock_limit);
    if (knock(socket, reader, secret, self_, until, stranger, [this] { look_for_stopped(); }) == Knock::welcome) {
      found_ = std::move(socket);
      reader_ = std::move(reader);
    } else {
      why_ = "there answered " + stranger;
    }
  }

  void try_endpoint(const Endpoint& endpoint, const std::string& secret) {
    std::vector<SocketAddress> addresses;
    try {
      addresses = resolve(endpoint);
    } catch (const Error& error) {
      why_ = error.what();
      name_known_ = name_known_ || error.code() == ExitCode::timeout;
      return;
    }
    name_known_ = true;
    for (const SocketAddress& address : addresses) {
      FileDescriptor socket = connect_to(address, std::min(deadline_, Clock::now() + connect_limit), why_);
      if (socket.open()) try_knock(std::move(socket), secret);
      if (found_.open()) return;
    }
  }

  // A name that nobody knows stays so on most clusters; whoever mistyped it is told at once.
  void throw_where_no_name_is_known() const {
    if (how_.names_come_late || how_.endpoints.empty() || Clock::now() < known_ + name_limit) return;
    throw Error(ExitCode::bad_arguments,
                format("Process %d on host %s: %s", self_.process, self_.host.c_str(), why_.c_str()));
  }

  [[noreturn]] void throw_not_found() const {
    std::string where;
    if (!door_.empty()) where.append("through the socket @").append(door_);
    for (const Endpoint& endpoint : how_.endpoints)
      where.append(where.empty() ? "at " : ", ").append(to_string(endpoint));
    throw Error(
        ExitCode::timeout,
        format("Process %d on host %s could not reach process 0 %s within %g s: %s; see whether process 0 runs, "
               "or set BUSBW_ADDRESS=host:port",
               self_.process, self_.host.c_str(), where.c_str(), in_seconds(how_.join_limit), why_.c_str()));
  }

  MeetingPlan how_;
  Member self_;
  Clock::time_point deadline_;
  std::string door_, runtime_folder_;  // empty: not by a meeting place of this host
  std::string why_ = "it has not come";
  bool name_known_ = false;                 // an address of process 0, in this round, or that it may be known soon
  Clock::time_point known_ = Clock::now();  // when it last was
  FileDescriptor found_;
  FrameReader reader_{greeting_limit};
  SiblingWatch siblings_;
};

}  // namespace

Joined meet(const JoinPlan& plan, const std::string& runtime_folder) {
  const auto deadline = Clock::now() + plan.meeting.join_limit;
  if (plan.placement.process == 0) return meet_as_process_0(plan, runtime_folder, deadline);
  return Joined{.hub = nullptr, .spoke = Search(plan, runtime_folder, deadline).run()};
}

}  // namespace busbw
