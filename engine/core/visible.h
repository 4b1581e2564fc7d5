// Text from elsewhere (a library's error, a device's name, a path) as a terminal may show it: nothing in it acts.
#pragma once

#include <string>
#include <string_view>

#include "engine/core/error.h"

namespace busbw {

// Control characters, C1 in UTF-8 (0xC2 0x80 to 0xC2 0x9F) included, are spelled out: `\x1b`. Line ends and tabs stay.
inline std::string visible(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto next = static_cast<unsigned char>(at + 1 < text.size() ? text[at + 1] : 0);
    if (byte == 0xC2 && next >= 0x80 && next <= 0x9F) {
      shown += format("\\x%02x", static_cast<unsigned>(next));
      ++at;
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      shown += format("\\x%02x", static_cast<unsigned>(byte));
    } else {
      shown += static_cast<char>(byte);
    }
  }
  return shown;
}

}  // namespace busbw
