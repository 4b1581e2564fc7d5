// A recording that somebody cuts off while its process writes it, as log rotation does by `cp x x.1; : > x`.
#pragma once

#include <cstddef>

namespace busbw::record {

struct Header;

// From now on the program goes on where the file behind these bytes is made shorter: it writes into memory of its own
// then, which nobody reads. Such a write is SIGBUS, which ends a program; so a program that handles that itself is left
// alone. For one mapping of a process, the newest.
void outlive_truncation(Header* header, std::size_t bytes);

// Whether that has happened: the file is no longer written.
bool was_cut_off();

}  // namespace busbw::record
