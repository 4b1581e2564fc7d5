// The engine's entry: one program under the names of all collectives.
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "engine/app/options.h"
#include "engine/app/run.h"
#include "engine/core/error.h"
#include "engine/core/visible.h"
#include "engine/platform/lifeline.h"

namespace {

// What a thread throws that has nobody to catch it: most often memory that the system does not give (ulimit -v).
void end_with_sentence() noexcept {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    constexpr std::string_view said = "busbw: the system gives no more memory; look at ulimit -v and -d\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, said.data(), said.size());
    _exit(static_cast<int>(busbw::ExitCode::internal));
  } catch (...) {
  }
  std::abort();
}

// glibc gives each thread a heap of its own, for which it reserves 128 MiB. Where `ulimit -v` does not allow that, each
// allocation of such a thread asks the kernel again: it took a rank 6 s and 1.4 million calls to end.
void let_threads_share_a_heap_where_space_is_limited() {
#ifdef M_ARENA_MAX
  struct rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  busbw::open_standard_descriptors();
  std::set_terminate(end_with_sentence);
  let_threads_share_a_heap_where_space_is_limited();
  // A file at its limit (ulimit -f) is then a failed write, which ends in a sentence.
  std::signal(SIGXFSZ, SIG_IGN);
  // Whole lines, so that a reader of a pipe sees every row as soon as it is measured.
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  if (!busbw::stands_in(argc > 0 ? argv[0] : nullptr)) busbw::exit_codes = busbw::ExitCodes::busbw;
  try {
    busbw::Command command = busbw::parse_command_line(argc, argv);
    if (command.kind != busbw::Command::Kind::measure) {
      if (std::fputs(command.text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
      std::fprintf(stderr, "busbw: stdout cannot be written: %s\n", std::strerror(errno));
      return static_cast<int>(busbw::ExitCode::internal);
    }
    busbw::lifeline::hold();
    return busbw::run(std::move(command.plan));
  } catch (const busbw::Error& error) {
    std::fprintf(stderr, "busbw: %s\n", busbw::bounded_sentence(error.what()).c_str());
    return busbw::exit_status(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "busbw: %s\n", busbw::bounded_sentence(busbw::explained(error)).c_str());
    return static_cast<int>(busbw::ExitCode::internal);
  }
}
