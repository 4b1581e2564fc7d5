// Creates, finds and checks the shared memory of a communicator.
#include "library/cpu/shared_segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "library/common/descriptor.h"
#include "library/common/failure.h"
#include "library/cpu/settings.h"

namespace busbw::cpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t most_failures = 1024;

// The mappings of this process, by name. A forked child does not use its parent's.
struct Registry {
  std::mutex guard;
  std::map<std::string, std::weak_ptr<SharedSegment>> segments;
  // Why rank 0, where it is of this process, could not create one: those who wait for it learn it at once.
  std::map<std::string, Failure> failures;
  // The same of the last one where there was no memory for a reason either.
  char starved[64] = "";

  std::shared_ptr<SharedSegment> find(const std::string& name) {
    const auto found = segments.find(name);
    return found == segments.end() ? nullptr : found->second.lock();
  }
  void add(const std::string& name, const std::shared_ptr<SharedSegment>& segment) {
    std::erase_if(segments, [](const auto& entry) { return entry.second.expired(); });
    segments[name] = segment;
  }
};

Registry& registry() {
  static Registry instance;
  return instance;
}

[[noreturn]] void fail_system(const char* what, const std::string& name, int error) {
  const char* remedy =
      error == EMFILE || error == ENFILE ? "Allow more of them: ulimit -n, or LimitNOFILE of a service."
      : error == EFBIG ? "It counts as a file: allow larger ones, by ulimit -f or LimitFSIZE of a service."
                       : "Is /dev/shm mounted, large enough and the same for all ranks?";
  throw Failure(ncclSystemError, text("Could not %s the shared memory %s of a communicator: %s. %s", what, name.c_str(),
                                      std::strerror(error), remedy));
}

// The header as read through a mapping of its own, before anything else of a stranger's segment is touched.
struct Preview {
  explicit Preview(int descriptor)
      : address(::mmap(nullptr, sizeof(SegmentHeader), PROT_READ, MAP_SHARED, descriptor, 0)) {}
  ~Preview() {
    if (address != MAP_FAILED) ::munmap(address, sizeof(SegmentHeader));
  }
  const SegmentHeader* header() const {
    return address == MAP_FAILED ? nullptr : static_cast<const SegmentHeader*>(address);
  }
  void* address;
};

// Announces a failure in a segment that is open but not mapped for good.
void leave_failure(int descriptor, const Failure& failure) {
  void* address = ::mmap(nullptr, sizeof(SegmentHeader), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return;
  announce_failure(*static_cast<SegmentHeader*>(address), failure.code(), failure.what());
  ::munmap(address, sizeof(SegmentHeader));
}

Failure disagreement(int zeros, int mine) {
  return {ncclInvalidArgument,
          text("Ranks disagree on their number: rank 0 says %d, another rank says %d.", zeros, mine)};
}

void check_header(const SegmentHeader& header, int descriptor, std::size_t size, int ranks) {
  if (header.version != segment_version) {
    throw Failure(ncclInvalidUsage,
                  text("Rank 0 runs another version of busbw's CPU library (shared memory layout %u, here %u).",
                       header.version, segment_version));
  }
  if (header.ranks != ranks) {
    const Failure failure = disagreement(header.ranks, ranks);
    leave_failure(descriptor, failure);
    throw failure;
  }
  const std::size_t expected = Layout::for_ranks(ranks).total_bytes();
  if (header.total_bytes != expected || size != expected) {
    throw Failure(ncclInvalidUsage,
                  text("The communicator's shared memory has %zu bytes where %zu were expected.", size, expected));
  }
}

constexpr const char* folder = "/dev/shm";
constexpr std::string_view name_prefix = "busbw-cpu-";
// How long a rank looks for the door before it asks for a name.
constexpr std::chrono::seconds before_wish{1};

// Memory that no name stands for, of `bytes` bytes that are there for certain: running out of it later would be a bus
// error in the middle of a collective. From /dev/shm, where it can get a name (see give_name), else, where that is
// small or missing as in many containers, from nowhere in particular. Not valid with `error` set where there is none.
Descriptor reserve(std::size_t bytes, int& error) {
  if (!may_be_so_long(bytes)) return error = EFBIG, Descriptor();
  Descriptor in_folder(::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  error = in_folder.valid() ? ::posix_fallocate(in_folder.get(), 0, off_t(bytes)) : errno;
  if (error == 0) return in_folder;
  Descriptor anywhere(::memfd_create("busbw-cpu", MFD_CLOEXEC));
  error = anywhere.valid() ? ::posix_fallocate(anywhere.get(), 0, off_t(bytes)) : errno;
  return error == 0 ? std::move(anywhere) : Descriptor();
}

// One byte of the folder, far beyond its end, stands for each name.
struct flock wish_for(const std::string& name, short type) {
  struct flock wish{};
  wish.l_type = type;
  wish.l_whence = SEEK_SET;
  wish.l_start = off_t(std::hash<std::string>{}(name) >> 2);  // below the largest offset
  wish.l_len = 1;
  return wish;
}

Descriptor open_folder() { return Descriptor(::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

// Held until the descriptor closes. Not valid where the folder is missing; where it has no locks nobody sees the wish.
Descriptor wish_name(const std::string& name) {
  Descriptor place = open_folder();
  struct flock wish = wish_for(name, F_RDLCK);
  if (place.valid()) ::fcntl(place.get(), F_OFD_SETLK, &wish);
  return place;
}

// Files whose rank 0 is gone: all ranks were killed while it had a name.
void remove_abandoned() {
  constexpr int most = 4096;
  constexpr time_t youngest_s = 5;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder), ::closedir);
  for (int count = 0; listing && count < most; ++count) {
    const dirent* entry = ::readdir(listing.get());
    if (!entry) return;
    if (!std::string_view(entry->d_name).starts_with(name_prefix)) continue;
    const std::string path = std::string(folder) + "/" + entry->d_name;
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (status.st_uid != ::geteuid() || ::time(nullptr) - status.st_mtime <= youngest_s) continue;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

// The abstract socket of rank 0. The name holds 128 random bits of the communicator's id.
socklen_t door_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), bytes);
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

bool is_own_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

struct Ancillary {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int))];
};

void hand_over(int socket, int file) {
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes;
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &file, sizeof file);
  // Who went away again needs nothing.
  [[maybe_unused]] const ssize_t ignored = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// What rank 0 hands out; invalid where nobody does yet.
Descriptor take_over(const std::string& name) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  const socklen_t size = door_address(name, address);
  // Rank 0 answers within a millisecond; one that has stopped must not keep this process's other ranks waiting.
  const timeval patience{.tv_sec = 0, .tv_usec = 200'000};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (!socket.valid() || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      !is_own_user(socket.get())) {
    return Descriptor();
  }
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes;
  message.msg_controllen = sizeof ancillary.bytes;
  if (::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC) != 1) return Descriptor();
  // No number was left for it here: to ask again gives no other answer.
  if (message.msg_flags & MSG_CTRUNC) fail_system("take over", name, EMFILE);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS) return Descriptor();
  int file = -1;
  std::memcpy(&file, CMSG_DATA(header), sizeof file);
  return Descriptor(file);
}

// Null while rank 0 has not finished creating it.
std::shared_ptr<Descriptor> open_if_there(const std::string& name, int ranks) {
  auto descriptor = std::make_shared<Descriptor>(take_over(name));
  if (!descriptor->valid()) *descriptor = Descriptor(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (!descriptor->valid()) {
    if (errno == ENOENT) return nullptr;
    fail_system("open", name, errno);
  }
  struct stat status{};
  if (::fstat(descriptor->get(), &status) != 0) fail_system("examine", name, errno);
  if (status.st_uid != ::geteuid()) {
    throw Failure(ncclInvalidUsage, text("The shared memory %s belongs to user %u, not to this one (%u).", name.c_str(),
                                         status.st_uid, ::geteuid()));
  }
  if (std::size_t(status.st_size) < sizeof(SegmentHeader)) return nullptr;
  const Preview preview(descriptor->get());
  if (!preview.header()) fail_system("map", name, errno);
  if (preview.header()->magic.load(std::memory_order_acquire) != segment_magic) return nullptr;
  check_header(*preview.header(), descriptor->get(), std::size_t(status.st_size), ranks);
  return descriptor;
}

}  // namespace

void announce_failure(SegmentHeader& header, ncclResult_t code, const std::string& sentence) {
  if (header.failure_claimed.exchange(1, std::memory_order_acq_rel) != 0) return;
  std::strncpy(header.failure_text, sentence.c_str(), sizeof header.failure_text - 1);
  header.failure.store(std::uint32_t(code), std::memory_order_release);
}

SharedSegment::SharedSegment(int descriptor, Layout layout) : layout_(layout) {
  void* address = ::mmap(nullptr, layout.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    throw Failure(ncclSystemError,
                  text("Could not map %zu bytes of shared memory: %s.", layout.total_bytes(), std::strerror(errno)));
  }
  base_ = static_cast<unsigned char*>(address);
  slots_ = base_ + layout.slot_offset(0, 0);
  slot_stride_ = layout.slot_stride();
}

SharedSegment::~SharedSegment() { ::munmap(base_, layout_.total_bytes()); }

std::shared_ptr<SharedSegment> SharedSegment::create(const std::string& name, int ranks) {
  const std::lock_guard lock(registry().guard);
  return make(name, ranks);
}

void SharedSegment::give_up(const std::string& name, const Failure& failure) {
  const std::lock_guard lock(registry().guard);
  if (registry().failures.size() < most_failures) registry().failures.emplace(name, failure);
}

std::shared_ptr<SharedSegment> SharedSegment::make(const std::string& name, int ranks) {
  const Layout layout = Layout::for_ranks(ranks);
  Descriptor door(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  const socklen_t size = door_address(name, address);
  if (!door.valid() || ::bind(door.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno == EADDRINUSE) {
      throw Failure(ncclInvalidUsage, "Two ranks 0 use the same ncclUniqueId; every communicator needs its own.");
    }
    fail_system("offer", name, errno);
  }
  remove_abandoned();
  int error = 0;
  Descriptor descriptor = reserve(layout.total_bytes(), error);
  if (!descriptor.valid()) fail_system("reserve", name, error);
  std::shared_ptr<SharedSegment> segment(new SharedSegment(descriptor.get(), layout));
  const Settings settings = Settings::from_environment();
  SegmentHeader& header = segment->header();
  header.version = segment_version;
  header.ranks = ranks;
  header.total_bytes = layout.total_bytes();
  header.short_max_bytes = std::min(settings.short_max_bytes, layout.slot_bytes);
  header.short_before_direct_bytes = std::min(settings.short_before_direct_bytes, layout.slot_bytes);
  header.chunk_bytes = settings.chunk_bytes;
  header.force_staged = settings.force_staged;
  header.magic.store(segment_magic, std::memory_order_release);
  // Only now may others come: what they get is complete.
  if (::listen(door.get(), SOMAXCONN) != 0) fail_system("offer", name, errno);
  segment->file_ = std::move(descriptor);
  segment->door_ = std::move(door);
  registry().add(name, segment);
  return segment;
}

void SharedSegment::give_up_without_memory(const std::string& name) noexcept {
  const std::lock_guard lock(registry().guard);
  std::strncpy(registry().starved, name.c_str(), sizeof registry().starved - 1);
}

void SharedSegment::serve(const std::string& name) {
  while (door_.valid()) {
    const Descriptor guest(::accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!guest.valid() && (errno == EMFILE || errno == ENFILE)) fail_system("hand on", name, errno);
    if (!guest.valid()) return;
    if (is_own_user(guest.get())) hand_over(guest.get(), file_.get());
  }
}

void SharedSegment::give_name(const std::string& name) {
  // Its descriptors lose the lock when the last of them closes, however their processes end.
  ::flock(file_.get(), LOCK_EX | LOCK_NB);
  const std::string from = text("/proc/self/fd/%d", file_.get());
  // Where that fails there is none, or it is there already.
  [[maybe_unused]] const int ignored =
      ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, (folder + name).c_str(), AT_SYMLINK_FOLLOW);
}

void SharedSegment::close_door() {
  door_ = Descriptor();
  file_ = Descriptor();
}

std::shared_ptr<SharedSegment> SharedSegment::attach(const std::string& name, int ranks, double limit_seconds) {
  const auto begin = Clock::now();
  const auto deadline = begin + std::chrono::duration<double>(limit_seconds);
  Descriptor wish;
  for (;;) {
    {
      const std::lock_guard lock(registry().guard);
      if (auto mine = registry().find(name)) {
        if (mine->layout().ranks == ranks) return mine;
        const Failure failure = disagreement(mine->layout().ranks, ranks);
        announce_failure(mine->header(), failure.code(), failure.what());
        throw failure;
      }
      if (const auto failed = registry().failures.find(name); failed != registry().failures.end()) {
        throw failed->second;
      }
      if (name == registry().starved)
        throw Failure(ncclSystemError, "Rank 0 has not enough memory for the communicator.");
      if (const auto descriptor = open_if_there(name, ranks)) {
        std::shared_ptr<SharedSegment> segment(new SharedSegment(descriptor->get(), Layout::for_ranks(ranks)));
        registry().add(name, segment);
        return segment;
      }
    }
    if (Clock::now() > deadline) {
      throw Failure(ncclTimeout, text("Rank 0 did not create the communicator within %g s (BUSBW_CPU_TIMEOUT). Was it "
                                      "started, on this host, with the same ncclUniqueId?",
                                      limit_seconds));
    }
    if (!wish.valid() && Clock::now() - begin > before_wish) wish = wish_name(name);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

bool SharedSegment::name_is_wished(const std::string& name) {
  const Descriptor place = open_folder();
  struct flock wish = wish_for(name, F_WRLCK);
  return place.valid() && ::fcntl(place.get(), F_OFD_GETLK, &wish) == 0 && wish.l_type != F_UNLCK;
}

void SharedSegment::unlink(const std::string& name) { ::shm_unlink(name.c_str()); }

}  // namespace busbw::cpu
