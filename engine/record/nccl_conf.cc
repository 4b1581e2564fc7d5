// Reads nccl.conf as NCCL's src/misc/param.cc does.
#include "engine/record/nccl_conf.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "engine/record/environment.h"

namespace busbw {
namespace {

constexpr std::size_t largest_conf = std::size_t{1} << 20;
constexpr std::size_t most_settings = 200;
constexpr std::size_t longest_conf_value = 1023;  // NCCL's buffer
constexpr std::size_t longest_conf_line = 4095;   // likewise; what follows is a line of its own there

constexpr int names_a_conf = 22300;      // NCCL_CONF_FILE
constexpr int home_of_variable = 23000;  // $HOME; earlier the home in the password file
constexpr int reads_parts = 23000;       // lines by parts, without the carriage return at their end

std::string value_of(const char* const* environment, std::string_view name) {
  for (const auto& [each, value] : full_environment(environment))
    if (each == name) return value;
  return {};
}

std::string home_in_password_file() {
  std::array<char, 16384> room{};
  struct passwd entry{};
  struct passwd* found = nullptr;
  if (getpwuid_r(getuid(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr) return {};
  return found->pw_dir == nullptr ? std::string() : found->pw_dir;
}

std::string text_of(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  std::ifstream file(path, std::ios::binary);
  std::string text(std::min(largest_conf, static_cast<std::size_t>(status.st_size)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

// The line as NCCL sees it: a string of C, which ends at the first NUL.
void take(std::string_view line, const std::string& file, int number, std::vector<ConfSetting>& to) {
  line = line.substr(0, line.find('\0'));
  const std::size_t equals = line.find('=');
  if (line.starts_with('#') || equals == line.npos || equals == 0) return;
  to.push_back({.name = std::string(line.substr(0, std::min(equals, longest_conf_value))),
                .value = std::string(line.substr(equals + 1, longest_conf_value)),
                .file = file,
                .line = number});
}

void read_conf(const ConfFile& file, bool by_parts, std::vector<ConfSetting>& to) {
  const std::string text = text_of(file.path);
  int number = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string_view line = std::string_view(text).substr(start, end - start);
    start = end + 1;
    ++number;
    for (; by_parts && line.size() > longest_conf_line; line.remove_prefix(longest_conf_line))
      take(line.substr(0, longest_conf_line), file.name, number, to);
    if (by_parts && line.ends_with('\r')) line.remove_suffix(1);
    take(line, file.name, number, to);
  }
}

}  // namespace

std::vector<ConfFile> conf_files(const char* const* environment, int version_code) {
  std::vector<ConfFile> files;
  const std::string named = version_code >= names_a_conf ? value_of(environment, "NCCL_CONF_FILE") : std::string();
  const std::string home = version_code >= home_of_variable ? value_of(environment, "HOME") : home_in_password_file();
  if (!named.empty())
    files.push_back({.name = named, .path = named});
  else if (!home.empty())
    files.push_back({.name = "~/.nccl.conf", .path = home + "/.nccl.conf"});
  files.push_back({.name = "/etc/nccl.conf", .path = "/etc/nccl.conf"});
  return files;
}

std::vector<ConfSetting> read_confs(const char* const* environment, int version_code) {
  std::vector<ConfSetting> found;
  for (const ConfFile& file : conf_files(environment, version_code))
    read_conf(file, version_code >= reads_parts, found);
  std::set<std::string, std::less<>> known;
  for (const auto& [name, value] : full_environment(environment)) known.insert(name);
  for (ConfSetting& each : found) each.in_force = known.insert(each.name).second;
  return found;
}

std::vector<ConfSetting> conf_settings(const char* const* environment, int version_code,
                                       std::vector<std::string>& notes) {
  std::vector<ConfSetting> found = read_confs(environment, version_code);
  std::erase_if(found, [](const ConfSetting& each) { return !is_relevant_variable(each.name); });
  if (found.size() > most_settings) {
    notes.push_back("nccl.conf sets " + std::to_string(found.size()) + " variables, the first " +
                    std::to_string(most_settings) + " of which are kept");
    found.resize(most_settings);
  }
  Variables values;
  for (const ConfSetting& each : found) values.emplace_back(each.name, each.value);
  hide_secrets(values);
  for (std::size_t at = 0; at < found.size(); ++at) found[at].value = std::move(values[at].second);
  return found;
}

}  // namespace busbw
