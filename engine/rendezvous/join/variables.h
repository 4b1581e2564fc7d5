// Typed look-ups in a map of environment variables, whose errors quote the variable and its value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/rendezvous/join/environment.h"

namespace busbw {

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  // A variable that is set but empty counts as not set, as launch scripts export them.
  bool has(std::string_view name) const { return !text(name).empty(); }
  std::string text(std::string_view name) const;
  std::optional<long> number(std::string_view name, long least, long most) const;
  // The number without which `partner`, which is set, makes no sense.
  long required(std::string_view name, std::string_view partner, long least, long most) const;
  std::optional<PortRange> port_range(std::string_view name) const;

  // The values of those that are set, with their names: what identifies a job.
  std::string identity(const std::vector<std::string_view>& names) const;

 private:
  const Environment& environment_;
};

[[noreturn]] void bad_environment(const std::string& sentence);

}  // namespace busbw
