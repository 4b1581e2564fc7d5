// A client of PMI-1, the line protocol that MPICH's hydra offers to its processes over an inherited descriptor: enough
// of it to hand process 0's address around, on any number of hosts.
#pragma once

#include <string>
#include <string_view>

#include "engine/rendezvous/net/sibling_watch.h"
#include "engine/rendezvous/net/socket.h"

namespace busbw {

class Pmi1 {
 public:
  // The descriptor stays open: a library in this process may speak PMI after us.
  Pmi1(int descriptor, Clock::time_point deadline);
  // Tells the server that we are done, so that it does not take our end for a crash.
  ~Pmi1();
  Pmi1(const Pmi1&) = delete;
  Pmi1& operator=(const Pmi1&) = delete;

  void put(std::string_view key, std::string_view value);
  void barrier();
  std::string get(std::string_view key);

 private:
  std::string ask(const std::string& command, std::string_view answer);
  int descriptor_;
  Clock::time_point deadline_;
  SiblingWatch siblings_;
  std::string pending_;
  std::string space_;
};

}  // namespace busbw
