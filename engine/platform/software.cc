// The kernel's release and the GPU driver's version, each cut to what a version can be.
#include "engine/platform/software.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/core/sha256.h"
#include "engine/platform/first_line.h"

namespace busbw {
namespace {

constexpr std::size_t longest = 100;

// Printable and short: it goes into records and is shown.
std::string word_of(const std::string& text) {
  std::string word;
  for (const char each : text) {
    if (std::isgraph(static_cast<unsigned char>(each)) == 0 || word.size() == longest) break;
    word += each;
  }
  return word;
}

// The value behind this name in a file of lines such as "GPU UUID: 	 GPU-...".
std::string value_in(const std::filesystem::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const std::size_t begin = line.find_first_not_of(" \t", name.size());
    return begin == std::string::npos ? "" : word_of(line.substr(begin));
  }
  return "";
}

template <typename Value>
std::vector<std::string> values_below(const std::filesystem::path& folder, Value value) {
  std::vector<std::string> found;
  std::error_code error;
  for (auto each = std::filesystem::directory_iterator(folder, error); !error && each != decltype(each)();
       each.increment(error)) {
    std::string said = value(each->path());
    if (!said.empty()) found.push_back(std::move(said));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string gpu_uuid(const std::filesystem::path& gpu) {
  const std::string said = value_in(gpu / "information", "GPU UUID:");
  return said.find('?') == std::string::npos ? said : "";  // GPU-????????-...: the driver does not know it yet
}

// What is no adapter has no device; what was given or drawn at random at its start has another type than 0.
std::string made_address(const std::filesystem::path& adapter) {
  std::error_code error;
  if (!std::filesystem::exists(adapter / "device", error) || first_line(adapter / "addr_assign_type") != "0") return "";
  const std::string address = word_of(first_line(adapter / "address"));
  return address.find_first_not_of("0:") == std::string::npos ? "" : address;
}

}  // namespace

std::string hardware_identity(const std::string& root) {
  std::vector<std::string> parts = values_below(root + "/proc/driver/nvidia/gpus", gpu_uuid);
  if (parts.empty()) parts = values_below(root + "/sys/class/net", made_address);
  if (parts.empty()) return "";
  std::string text;
  for (const std::string& part : parts) text += part + '\n';
  return hex(sha256(text)).substr(0, 16);
}

std::string kernel_release() {
  utsname names{};
  return ::uname(&names) == 0 ? word_of(names.release) : "";
}

std::string gpu_driver_version(const char* path) {
  std::ifstream file(path);
  char text[longest + 1] = "";
  file.read(text, longest);
  return word_of(text);
}

}  // namespace busbw
