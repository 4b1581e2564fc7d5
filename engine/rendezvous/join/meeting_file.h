// Where processes of one host meet when no launcher told them an address and there is no door (net/door.h): a file in a
// private folder of the user, in which process 0 publishes its port and a random secret.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "engine/rendezvous/net/socket.h"

namespace busbw {

struct Meeting {
  int port = 0;
  std::string secret;
};

// $XDG_RUNTIME_DIR/busbw where that folder exists, else /tmp/busbw-UID; made with mode 0700. Throws Error when it is
// not a folder of this user's alone.
std::string private_folder(const std::string& runtime_folder);
// The same where it is there already and is this user's alone, else empty; makes and throws nothing.
std::string existing_private_folder(const std::string& runtime_folder);

// The name of the job's door: like the file, for processes with one runtime folder only.
std::string door_name(const std::string& runtime_folder, const std::string& identity);

// The file of the job with this identity, on this host and in this network namespace, whose loopback it speaks of.
std::string meeting_path(const std::string& folder, const std::string& identity);

// Nothing when there is none (yet), or what lies there is not what process 0 of this user writes.
std::optional<Meeting> read_meeting(const std::string& path);

// Removes the file where the process that published it has ended (its lock is free); a file of a living one stays.
void remove_if_abandoned(const std::string& path);
// The same for every file in the folder that is older than a few seconds.
void sweep_abandoned(const std::string& folder);

// Publishes at once and as a whole, and removes its own file (never a later one of the same name). Holds a lock on it,
// which the kernel gives up when this process ends, however it ends.
class PublishedMeeting {
 public:
  PublishedMeeting() = default;
  PublishedMeeting(const std::string& path, const Meeting& meeting);
  PublishedMeeting(PublishedMeeting&& other) noexcept { *this = std::move(other); }
  PublishedMeeting& operator=(PublishedMeeting&& other) noexcept;
  ~PublishedMeeting() { remove(); }
  void remove();

 private:
  std::string path_;
  unsigned long inode_ = 0;
  FileDescriptor lock_;
};

}  // namespace busbw
