// Reads a launcher's environment: which process this is and how the processes of its job can meet. Pure: it acts on
// nothing, so every launcher is a golden test.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/rendezvous/rendezvous.h"

namespace busbw {

using Environment = std::map<std::string, std::string, std::less<>>;

Environment current_environment();

struct Endpoint {
  std::string host;
  int port = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};
std::string to_string(const Endpoint& endpoint);

// "host", "host:port", "address:port", "[v6 address]:port"; port 0 where none is given.
Endpoint parse_endpoint(std::string_view text, std::string_view variable);

// Below Linux's ephemeral ports (32768 up), so that no outgoing connection sits on one of them.
struct PortRange {
  int first = 21000;
  int last = 28999;
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

// How the processes of one job find process 0. Exactly one of endpoints, meeting and pmi_descriptor leads.
struct MeetingPlan {
  std::vector<Endpoint> endpoints;       // process 0 listens at the first that is free; the others try each
  std::string meeting;                   // identity of the job, where its processes meet through a file of this host
  std::optional<int> pmi_descriptor;     // a PMI-1 server (MPICH's hydra) that hands addresses around
  std::optional<int> listen_descriptor;  // a listening socket that process 0 inherits
  std::string secret;                    // empty: process 0 makes one and publishes it with its address
  std::string interface;                 // process 0 listens on this network interface only
  std::optional<PortRange> ports;        // set by the user; otherwise where a port is free to choose, the kernel does
  std::vector<std::string> hosts;        // of the job, where the launcher names them, to say which did not come
  std::chrono::milliseconds join_limit{60'000};
  bool names_come_late = false;  // a pod's name is known once the pod runs; elsewhere an unknown name stays unknown
};

struct JoinPlan {
  Placement placement;
  bool local_known = true;  // false: local_process is to be counted once the processes have met
  MeetingPlan meeting;
};

// Throws Error(bad_arguments) with one sentence for values that are malformed, contradictory or incomplete.
JoinPlan plan_join(const Environment& environment, const RendezvousOptions& options = {});

}  // namespace busbw
