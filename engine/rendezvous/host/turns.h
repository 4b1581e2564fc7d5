// Taking turns with other engines: several libraries measured by one command, case by case, each in its own processes.
//
// BUSBW_TURNS is "PLAYERS SOCKET": how many engines take part, and the Unix socket of whoever hands out the turns
// ("@name": one in no file system). The main process sends a byte when it wants a turn: 'c' where a cycle over all
// cases begins, 'r' for a row in it. It has the turn when 'g' comes back, until it asks again or ends. 'e' says that
// enough is known: it ends in order.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace busbw {

class Turns {
 public:
  // Connects; null where `setting` is null. Throws Error(bad_arguments) for one that cannot be read or reached.
  static std::unique_ptr<Turns> join(const char* setting);

  int players() const { return players_; }

  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Waits for the next turn and calls `check` meanwhile, which throws when the job has failed. False: no turn follows.
  // Throws Error when nobody hands out turns any more.
  bool take(bool cycle_begins, const std::function<void()>& check);

 private:
  Turns(int players, int socket) : players_(players), socket_(socket) {}

  int players_;
  int socket_;
};

}  // namespace busbw
