// The meeting place of one host: a Unix socket that no file system knows, so that nothing stays behind however and
// whenever its process ends. Linux keeps such names ("abstract sockets") per network namespace.
#pragma once

#include <string>

#include "engine/rendezvous/net/socket.h"

namespace busbw {

// Anybody may take a name first: process 0 then takes the next place, and the others look at all of them.
inline constexpr int door_places = 4;

// Listens at the first free place of this name. Not open where all are taken or the kernel has no such sockets.
FileDescriptor listen_at_door(const std::string& name);

// Not open where nobody of this user listens at that place.
FileDescriptor connect_to_door(const std::string& name, int place);

// Whether the other end of a Unix socket is another user's; false for every other kind of socket.
bool of_another_user(const FileDescriptor& socket);

}  // namespace busbw
