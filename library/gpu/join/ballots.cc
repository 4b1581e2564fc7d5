// Votes and what they come to, in a page without a name.
#include "library/gpu/join/ballots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "library/common/failure.h"

namespace busbw::gpu {
namespace {

constexpr std::size_t page_bytes = 128 << 10;

[[noreturn]] void page_failure(const char* what) {
  throw Failure(ncclSystemError, text("memory for the ranks' votes: %s failed with %s", what, std::strerror(errno)));
}

}  // namespace

struct Ballots::Page {
  std::atomic<std::uint32_t> votes[counts][max_ranks];
  std::atomic<std::uint32_t> results[counts];
  Trial::Words trial;
  Consent::Words consent;
};

std::unique_ptr<Ballots> Ballots::make(int rank, int ranks) {
  Descriptor page(::memfd_create("busbw-gpu-votes", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!page.valid()) page_failure("memfd_create");
  if (!may_be_so_long(page_bytes)) errno = EFBIG, page_failure("ulimit -f");
  if (::ftruncate(page.get(), page_bytes) != 0) page_failure("ftruncate");
  // A page that another process could take away would end this one.
  if (::fcntl(page.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) page_failure("fcntl");
  Page* const at = mapped(page);
  return std::unique_ptr<Ballots>(new Ballots(std::move(page), at, rank, ranks));
}

std::unique_ptr<Ballots> Ballots::open(Descriptor page, int rank, int ranks) {
  struct stat facts{};
  const int seals = ::fcntl(page.get(), F_GET_SEALS);
  const bool whole = ::fstat(page.get(), &facts) == 0 && facts.st_size == off_t(page_bytes);
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || !whole) {
    throw Failure(ncclSystemError, "what came from rank 0 is no memory for votes");
  }
  Page* const at = mapped(page);
  return std::unique_ptr<Ballots>(new Ballots(std::move(page), at, rank, ranks));
}

Ballots::Ballots(Descriptor descriptor, Page* page, int rank, int ranks)
    : descriptor_(std::move(descriptor)),
      page_(page),
      rank_(rank),
      ranks_(ranks),
      trial_(page->trial, rank, ranks),
      consent_(page->consent, rank, ranks) {}

Ballots::Page* Ballots::mapped(const Descriptor& page) {
  static_assert(sizeof(Page) <= page_bytes && std::atomic<std::uint32_t>::is_always_lock_free);
  void* const at = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, page.get(), 0);
  if (at == MAP_FAILED) page_failure("mmap");
  return static_cast<Page*>(at);
}

Ballots::~Ballots() { ::munmap(page_, page_bytes); }

int Ballots::next_count(std::uint64_t call) {
  int count = 0;
  while (count < counts && first_count << (2 * count) <= call) ++count;
  return count;
}

bool Ballots::wants_vote(std::uint64_t call) const {
  const int count = next_count(call);
  return count < counts && cast_[count].load(std::memory_order_relaxed) < 2;
}

void Ballots::vote(std::uint64_t call, bool yes_or_no) {
  const int count = next_count(call);
  if (count == counts) return;
  cast_[count].fetch_add(1, std::memory_order_relaxed);
  std::atomic<std::uint32_t>& mine = page_->votes[count][rank_];
  std::uint32_t none = nothing;
  if (yes_or_no) {
    mine.compare_exchange_strong(none, yes);  // a no stays
  } else {
    mine.store(no);
  }
}

bool Ballots::decided(std::uint64_t call) const {
  const int next = next_count(call);
  return next > 0 && result(next - 1);
}

bool Ballots::result(int count) const {
  std::atomic<std::uint32_t>& written = page_->results[count];
  if (const std::uint32_t known = written.load(); known != nothing) return known == yes;
  int voted = 0;
  bool refused = false;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::uint32_t vote = page_->votes[count][rank].load();
    voted += vote != nothing;
    refused = refused || vote == no;
  }
  const bool before = count > 0 && result(count - 1);
  const bool agreed = !refused && (voted == ranks_ || before);
  std::uint32_t found = nothing;
  written.compare_exchange_strong(found, agreed ? yes : no);
  return found == nothing ? agreed : found == yes;
}

}  // namespace busbw::gpu
