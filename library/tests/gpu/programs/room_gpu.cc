// What a program may do with many communicators, with aborts and with communicators that do not block, each tried by
// threads and by processes on 2 and 4 GPUs. NCCL alone passes; busbw's GPU library in front of it must pass the same.
#include <chrono>
#include <cstdlib>

#include "library/tests/gpu/programs/main.h"

namespace programs {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

ncclConfig_t new_config() {
  ncclConfig_t config;
  std::fill_n(reinterpret_cast<int*>(&config), sizeof config / sizeof(int), int(NCCL_CONFIG_UNDEF_INT));
  config.netName = config.commName = nullptr;
  // As NCCL 2.28 has it: every later one takes it.
  config.size = offsetof(ncclConfig_t, graphUsageMode);
  config.magic = unsigned(NCCL_API_MAGIC);
  config.version = 22800;
  return config;
}

ncclComm_t new_comm(Rank& r, ncclConfig_t config) {
  if (r.rank == 0) r.nccl.check(r.nccl.get_unique_id(&r.shared.id), "ncclGetUniqueId");
  r.barrier();
  const ncclUniqueId id = r.shared.id;
  r.barrier();
  ncclComm_t comm = nullptr;
  const ncclResult_t result = r.nccl.init_rank_config(&comm, r.ranks, id, r.rank, &config);
  if (result != ncclInProgress) r.nccl.check(result, "ncclCommInitRankConfig");
  return comm;
}

void wait_until_ready(Rank& r, ncclComm_t comm) {
  const auto end = Clock::now() + std::chrono::seconds(60);
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    r.nccl.check(r.nccl.async_error(comm, &state), "ncclCommGetAsyncError");
    if (Clock::now() > end) throw std::runtime_error("a communicator does not get ready");
    ::usleep(1000);
  }
  r.nccl.check(state, "making a communicator");
}

std::string how(Rank& r, ncclComm_t comm, std::size_t elements) {
  if (!r.nccl.explain) return "";
  char text[512] = "";
  r.nccl.explain(comm, busbwAllReduce, nullptr, nullptr, elements, ncclFloat32, ncclSum, text, sizeof text);
  return text;
}

void expect_accelerated(Rank& r, ncclComm_t comm) {
  const std::string answer = how(r, comm, 256);
  if (r.nccl.ours && answer.starts_with("nccl:")) throw std::runtime_error("a communicator is left to NCCL: " + answer);
}

// One call on each of many communicators
// ---------------------------------------------------------------------------------------------------

struct Place {
  ncclComm_t comm;
  Stream stream;
};

std::vector<Place> places(Rank& r, int count, int most_blocks) {
  std::vector<Place> all;
  for (int i = 0; i < count; ++i) {
    ncclConfig_t config = new_config();
    if (most_blocks) config.maxCTAs = most_blocks;
    all.push_back({new_comm(r, config), r.stream()});
  }
  return all;
}

void destroy(Rank& r, const std::vector<Place>& all) {
  r.barrier();
  for (const Place& place : all) {
    r.nccl.check(r.nccl.destroy(place.comm), "ncclCommDestroy");
    r.cuda.check(r.cuda.stream_destroy(place.stream), "cuStreamDestroy");
  }
  r.barrier();
}

// Ranks start the calls in orders of their own, all at once or the last rank late.
void in_another_order(Rank& r, bool late, int most_blocks) {
  const std::vector<Place> all = places(r, 8, most_blocks);
  std::vector<Address> in, out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    in.push_back(r.buffer());
    out.push_back(r.buffer());
  }
  for (const std::size_t elements : sizes) {
    for (int round = 0; round < 4; ++round) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        r.fill(in[i], r.input(int(i)), elements, all[i].stream);
        r.fill(out[i], -1, elements, all[i].stream);
        r.wait(all[i].stream);
      }
      r.barrier();
      if (late && r.rank == r.ranks - 1) ::usleep(100'000);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::size_t turned = (i + std::size_t(3 * r.rank + round)) % all.size();
        const std::size_t at = r.rank % 2 == 0 ? turned : all.size() - 1 - turned;
        r.all_reduce(all[at].comm, in[at], out[at], elements, all[at].stream);
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        r.wait(all[i].stream);
        r.expect(out[i], r.sum(int(i)), elements, "a communicator among eight");
      }
      r.barrier();
    }
  }
  destroy(r, all);
}

void sixty_four(Rank& r) {
  const std::vector<Place> all = places(r, 64, 0);
  const Address in = r.buffer();
  const Address out = r.buffer();
  for (const std::size_t elements : sizes) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      r.fill(in, r.input(int(i)), elements, all[i].stream);
      r.fill(out, -1, elements, all[i].stream);
      r.all_reduce(all[i].comm, in, out, elements, all[i].stream);
      r.wait(all[i].stream);
      r.expect(out, r.sum(int(i)), elements, "a communicator among sixty-four");
    }
  }
  for (const Place& place : all) expect_accelerated(r, place.comm);
  destroy(r, all);
}

// Calls that are on their way when another communicator is made, at different places on the ranks.
void made_between_calls(Rank& r) {
  const std::vector<Place> first = places(r, 1, 0);
  const Address in = r.buffer();
  std::vector<Address> out{r.buffer(), r.buffer(), r.buffer(), r.buffer()};
  const std::size_t elements = most_elements;
  r.fill(in, r.input(0), elements, first[0].stream);
  r.wait(first[0].stream);
  const std::size_t before = std::size_t(r.rank) % out.size();
  for (std::size_t i = 0; i < before; ++i) r.all_reduce(first[0].comm, in, out[i], elements, first[0].stream);
  const std::vector<Place> second = places(r, 1, 0);
  for (std::size_t i = before; i < out.size(); ++i) r.all_reduce(first[0].comm, in, out[i], elements, first[0].stream);
  r.wait(first[0].stream);
  for (const Address one : out) r.expect(one, r.sum(0), elements, "a call around the making of a communicator");
  r.all_reduce(second[0].comm, in, out[0], elements, second[0].stream);
  r.wait(second[0].stream);
  r.expect(out[0], r.sum(0), elements, "a call of the new communicator");
  destroy(r, first);
  destroy(r, second);
}

// Aborts
// ---------------------------------------------------------------------------------------------------

enum class Waiting { nccl, ours };

// A kernel on rank 0 waits for peers that never come.
void abort_while_a_kernel_waits(Rank& r, Waiting kernel) {
  const std::vector<Place> all = places(r, 2, 0);
  const Address in = r.buffer();
  const Address out = r.buffer();
  r.fill(in, r.input(1), 65536, all[0].stream);
  // Connections are made at the first call.
  for (const Place& place : all) {
    r.nccl.check(r.nccl.reduce(reinterpret_cast<void*>(in), reinterpret_cast<void*>(out), 65536, ncclFloat32, ncclSum,
                               0, place.comm, all[0].stream),
                 "ncclReduce");
    r.wait(all[0].stream, "the first ncclReduce");
  }
  r.barrier();
  if (r.rank == 0) {
    if (kernel == Waiting::ours) {
      r.all_reduce(all[0].comm, in, out, 65536, all[0].stream);
    } else {
      r.nccl.check(r.nccl.reduce(reinterpret_cast<void*>(in), reinterpret_cast<void*>(out), 65536, ncclFloat32, ncclSum,
                                 0, all[0].comm, all[0].stream),
                   "ncclReduce");
    }
    ::usleep(50'000);
  }
  const auto begin = Clock::now();
  r.nccl.check(r.nccl.abort(all[0].comm), "ncclCommAbort");
  const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - begin).count();
  if (took > 1000) throw std::runtime_error("ncclCommAbort took " + std::to_string(took) + " ms");
  r.wait(all[0].stream, "the stream of the aborted communicator");
  // The other communicator does not notice.
  r.fill(out, -1, 65536, all[1].stream);
  r.all_reduce(all[1].comm, in, out, 65536, all[1].stream);
  r.wait(all[1].stream, "the stream of another communicator");
  r.expect(out, r.sum(1), 65536, "a call of another communicator");
  r.cuda.check(r.cuda.stream_destroy(all[0].stream), "cuStreamDestroy");
  destroy(r, {all[1]});
}

// Rank 0 has its result and aborts; what the others still have to do has all it needs.
void abort_after_the_own_end(Rank& r) {
  for (int round = 0; round < 20; ++round) {
    const std::vector<Place> one = places(r, 1, 0);
    const Address in = r.buffer();
    const Address out = r.buffer();
    r.fill(in, r.input(round), 1 << 20, one[0].stream);
    r.fill(out, -1, 1 << 20, one[0].stream);
    r.all_reduce(one[0].comm, in, out, 1 << 20, one[0].stream);
    if (r.rank != 0) r.spin(one[0].stream, 5);
    r.wait(one[0].stream);
    if (r.rank == 0) r.nccl.check(r.nccl.abort(one[0].comm), "ncclCommAbort");
    r.expect(out, r.sum(round), 1 << 20, "a call before a peer's abort");
    r.barrier();
    if (r.rank != 0) r.nccl.check(r.nccl.abort(one[0].comm), "ncclCommAbort");
    r.cuda.check(r.cuda.stream_destroy(one[0].stream), "cuStreamDestroy");
    r.begin_case();
    r.barrier();
  }
}

// Communicators that do not block
// ---------------------------------------------------------------------------------------------------

void use(Rank& r, ncclComm_t comm, const char* what) {
  const Stream stream = r.stream();
  const Address in = r.buffer();
  const Address out = r.buffer();
  for (const std::size_t elements : sizes) {
    r.fill(in, r.input(3), elements, stream);
    r.fill(out, -1, elements, stream);
    const ncclResult_t result = r.nccl.all_reduce(reinterpret_cast<void*>(in), reinterpret_cast<void*>(out), elements,
                                                  ncclFloat32, ncclSum, comm, stream);
    if (result == ncclInProgress) {
      wait_until_ready(r, comm);
    } else {
      r.nccl.check(result, "ncclAllReduce");
    }
    r.wait(stream);
    r.expect(out, r.sum(3), elements, what);
  }
  r.cuda.check(r.cuda.stream_destroy(stream), "cuStreamDestroy");
  r.barrier();
}

void end_non_blocking(Rank& r, ncclComm_t comm) {
  const ncclResult_t result = r.nccl.destroy(comm);
  if (result != ncclInProgress) r.nccl.check(result, "ncclCommDestroy");
}

void non_blocking(Rank& r, bool split) {
  ncclConfig_t config = new_config();
  config.blocking = 0;
  ncclComm_t comm = new_comm(r, config);
  wait_until_ready(r, comm);
  expect_accelerated(r, comm);
  use(r, comm, "a call of a non-blocking communicator");
  if (split) {
    ncclComm_t child = nullptr;
    const ncclResult_t result = r.nccl.split(comm, 0, r.rank, &child, &config);
    if (result != ncclInProgress) r.nccl.check(result, "ncclCommSplit");
    wait_until_ready(r, comm);
    if (!child) throw std::runtime_error("a split gives no communicator");
    wait_until_ready(r, child);
    expect_accelerated(r, child);
    use(r, child, "a call of a split non-blocking communicator");
    end_non_blocking(r, child);
  }
  end_non_blocking(r, comm);
}

std::vector<Case> all_cases(int) {
  return {
      {"eight-communicators-in-another-order", [](Rank& r) { in_another_order(r, false, 0); }},
      {"eight-communicators-late", [](Rank& r) { in_another_order(r, true, 0); }},
      {"eight-communicators-in-another-order-maxctas-4", [](Rank& r) { in_another_order(r, false, 4); }},
      {"eight-communicators-late-maxctas-4", [](Rank& r) { in_another_order(r, true, 4); }},
      {"sixty-four-communicators", sixty_four},
      {"communicator-made-between-calls", made_between_calls},
      {"abort-while-ncclReduce-waits", [](Rank& r) { abort_while_a_kernel_waits(r, Waiting::nccl); }},
      {"abort-while-ncclAllReduce-waits", [](Rank& r) { abort_while_a_kernel_waits(r, Waiting::ours); }},
      {"abort-after-the-own-end", abort_after_the_own_end},
      {"non-blocking", [](Rank& r) { non_blocking(r, false); }},
      {"non-blocking-split", [](Rank& r) { non_blocking(r, true); }},
  };
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) { return programs::main_of(argc, argv, programs::all_cases); }
