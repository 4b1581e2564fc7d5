// Finds out what this process runs on, from the loaded NCCL, the driver and /sys; starts nothing and waits for nothing.
#include "library/tuner/facts.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <vector>

#include "library/common/descriptor.h"

namespace busbw::tuner {
namespace {

constexpr std::size_t max_devices = 65'536;
constexpr const char* nobody = "none";

// The beginning of a file, without the white space at its end; "" where there is none.
std::string head_of(const std::string& path, std::size_t most = 256) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status{};
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  std::string text(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const ssize_t got = ::read(file.get(), text.data() + size, most - size);
    if (got <= 0) break;
    size += std::size_t(got);
  }
  text.resize(size);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

struct Closer {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, Closer>;

// Of a library that is loaded already; it is not loaded for the sake of the question.
Library loaded(const char* name) { return Library(::dlopen(name, RTLD_LAZY | RTLD_NOLOAD)); }

// The name of the GPU that NCCL has made current in this thread, or of the first.
std::string gpu_name(void* cuda) {
  using CurrentDevice = int (*)(int*);
  using Device = int (*)(int*, int);
  using Name = int (*)(char*, int, int);
  const auto current = reinterpret_cast<CurrentDevice>(::dlsym(cuda, "cuCtxGetDevice"));
  const auto first = reinterpret_cast<Device>(::dlsym(cuda, "cuDeviceGet"));
  const auto name_of = reinterpret_cast<Name>(::dlsym(cuda, "cuDeviceGetName"));
  int device = 0;
  char name[256] = "";
  if (!name_of || !first || ((!current || current(&device) != 0) && first(&device, 0) != 0)) return "";
  return name_of(name, sizeof name - 1, device) == 0 ? name : "";
}

bool starts_with_any(const std::string& text, std::initializer_list<const char*> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](const char* each) { return text.starts_with(each); });
}

}  // namespace

std::string hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char each : text) hash = (hash ^ std::uint8_t(each)) * 0x100000001b3;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

std::string nccl_version_of(const void* address) {
  Dl_info where{};
  if (!address || !::dladdr(address, &where) || !where.dli_fname) return "";
  // A program that NCCL is linked into is found under its own name only as what is global.
  Library library = loaded(where.dli_fname);
  if (!library) library = Library(::dlopen(nullptr, RTLD_LAZY));
  void* function = library ? ::dlsym(library.get(), "ncclGetVersion") : nullptr;
  Dl_info other{};
  if (!function || !::dladdr(function, &other) || other.dli_fbase != where.dli_fbase) return "";
  int code = 0;
  if (reinterpret_cast<ncclResult_t (*)(int*)>(function)(&code) != ncclSuccess || code < 20'000) return "";
  return std::to_string(code / 10'000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

Topology topology_of(const char* devices, const char* topology_file) {
  std::vector<std::string> parts;
  std::set<std::string> gpus;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(devices), ::closedir);
  for (std::size_t seen = 0; folder && seen < max_devices; ++seen) {
    const dirent* entry = ::readdir(folder.get());
    if (!entry) break;
    if (entry->d_name[0] == '.') continue;
    const std::string place = std::string(devices) + "/" + entry->d_name + "/";
    const std::string kind = head_of(place + "class"), vendor = head_of(place + "vendor");
    const bool nvidia = vendor == "0x10de";
    const bool gpu = nvidia && starts_with_any(kind, {"0x0300", "0x0302"});
    // NVLink switches are bridges of NVIDIA's; 0x02 is every network adapter.
    if (!gpu && !(nvidia && kind.starts_with("0x0680")) && !kind.starts_with("0x02")) continue;
    const std::string device = head_of(place + "device");
    if (gpu) gpus.insert(device);
    std::string part = kind + " " + vendor + " " + device;
    for (const char* fact : {"numa_node", "max_link_speed", "max_link_width"}) {
      part += ' ';
      part += head_of(place + fact);
    }
    parts.push_back(std::move(part));
  }
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const std::string& part : parts) text += part + "\n";
  if (topology_file && *topology_file) text += "file " + head_of(topology_file, 1 << 20);
  return {hash_of(text), gpus.size() > 1};
}

Place facts(std::size_t ranks, std::size_t nodes, Logger logger) {
  Place here;
  here.nccl = nccl_version_of(reinterpret_cast<const void*>(logger));
  const Topology topology = topology_of("/sys/bus/pci/devices", std::getenv("NCCL_TOPO_FILE"));
  here.topology = topology.hash;
  const Library cuda = loaded("libcuda.so.1");
  here.gpu = !cuda ? nobody : topology.mixed ? "" : gpu_name(cuda.get());
  here.driver = !cuda ? nobody : head_of("/sys/module/nvidia/version");
  here.ranks = ranks;
  here.nodes = nodes;
  return here;
}

}  // namespace busbw::tuner
