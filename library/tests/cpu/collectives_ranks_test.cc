// Every collective, type and operation, in and out of place, between threads, processes and both, against the
// reference.
#include <random>

#include "library/tests/cpu/ranks.h"

namespace busbw::cpu::test {
namespace {

constexpr CollectiveKind kinds[] = {
    CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::broadcast,
    CollectiveKind::reduce,     CollectiveKind::all_to_all, CollectiveKind::gather,         CollectiveKind::scatter};

// Sanitizers look for races and for memory that is not ours. They find those in far fewer calls, and are far slower.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool with_sanitizer = true;
#else
constexpr bool with_sanitizer = false;
#endif
constexpr int calls_of_a_mix = with_sanitizer ? 200 : 1000;
// Both sides of each threshold, and several chunks. A sanitizer needs one count for each way that is taken.
const std::vector<std::size_t> counts_around_thresholds =
    with_sanitizer ? std::vector<std::size_t>{4, 10, 11, 4096, 4097, 65537, 150001}
                   : std::vector<std::size_t>{4, 10, 11, 4095, 4096, 4097, 32768, 65537, 131072, 150001};

enum class Place : std::uint8_t { alternating, out_of_place, in_place };

void check_all_types(CollectiveKind kind, std::size_t count, Place place, bool start, ncclComm_t comm, int rank,
                     int ranks) {
  const int reductions = reduces(kind) ? reduction_count : 1;
  for (int type = 0; type < ncclNumTypes; ++type) {
    for (int reduction = 0; reduction < reductions; ++reduction) {
      const Collective call{.kind = kind,
                            .type = ncclDataType_t(type),
                            .reduction = Reduction(reduction),
                            .root = rooted(kind) ? int(count + std::size_t(type)) % ranks : 0,
                            .count = count};
      const auto inputs = shared_inputs(call, ranks, std::uint32_t(count) * 31 + std::uint32_t(type));
      const bool alternate = ((type + reduction) % 2 == 0) == start;
      const bool in_place = place == Place::alternating ? alternate : place == Place::in_place;
      ASSERT_NO_FATAL_FAILURE(check_call(call, *inputs, {.in_place = in_place}, comm, rank));
    }
  }
}

class EveryCollective : public ::testing::TestWithParam<Placement> {};

TEST_P(EveryCollective, GivesTheReferencesBitsForEveryTypeAndOperation) {
  const int ranks = GetParam().ranks();
  // What is computed is the same whether ranks are threads or processes, and with a sanitizer or without.
  const bool every_count = GetParam().processes == 1 && !with_sanitizer;
  run_placed(GetParam(), [&](ncclComm_t comm, int rank) {
    for (const CollectiveKind kind : kinds) {
      if (!every_count) {
        ASSERT_NO_FATAL_FAILURE(check_all_types(kind, 17, Place::alternating, false, comm, rank, ranks));
        ASSERT_NO_FATAL_FAILURE(check_all_types(kind, 5003, Place::alternating, true, comm, rank, ranks));
        continue;
      }
      // Every type and operation in place and out of place: with the longest, and with two or three of the others.
      bool start = false;
      for (const std::size_t count : {0, 1, 3, 17, 1000}) {
        ASSERT_NO_FATAL_FAILURE(check_all_types(kind, count, Place::alternating, start, comm, rank, ranks));
        start = !start;
      }
      for (const Place place : {Place::out_of_place, Place::in_place})
        ASSERT_NO_FATAL_FAILURE(check_all_types(kind, 5003, place, false, comm, rank, ranks));
    }
  });
}

TEST_P(EveryCollective, IsRightAroundEveryThresholdAndInSeveralChunks) {
  const int ranks = GetParam().ranks();
  run_placed(GetParam(), [&](ncclComm_t comm, int rank) {
    for (const CollectiveKind kind : kinds) {
      for (const std::size_t count : counts_around_thresholds) {
        for (const bool shared : {false, true}) {
          const Collective call{
              .kind = kind, .type = ncclFloat32, .root = rooted(kind) ? ranks - 1 : 0, .count = count};
          const auto inputs = shared_inputs(call, ranks, std::uint32_t(count));
          for (const bool in_place : {false, true}) {
            ASSERT_NO_FATAL_FAILURE(check_call(call, *inputs, {.in_place = in_place, .shared = shared}, comm, rank));
          }
        }
      }
    }
  });
}

TEST_P(EveryCollective, TakesUnalignedBuffers) {
  const int ranks = GetParam().ranks();
  run_placed(GetParam(), [&](ncclComm_t comm, int rank) {
    for (const CollectiveKind kind : kinds) {
      for (const std::size_t count : {2, 5, 999, 40001}) {
        for (const std::size_t offset : {1, 2, 7, 33}) {
          const Collective call{.kind = kind, .type = offset % 2 ? ncclFloat16 : ncclInt64, .count = count};
          const auto inputs = shared_inputs(call, ranks, std::uint32_t(count));
          ASSERT_NO_FATAL_FAILURE(check_call(call, *inputs, {.in_place = offset == 7, .offset = offset}, comm, rank));
        }
      }
    }
  });
}

TEST_P(EveryCollective, SurvivesALongRandomMixOfCalls) {
  const int ranks = GetParam().ranks();
  run_placed(GetParam(), [&](ncclComm_t comm, int rank) {
    std::mt19937 random(7);  // the same on all ranks
    for (int i = 0; i < calls_of_a_mix; ++i) {
      const CollectiveKind kind = kinds[random() % std::size(kinds)];
      const std::size_t size_class = std::size_t{1} << random() % 17;
      const Collective call{.kind = kind,
                            .type = ncclDataType_t(random() % ncclNumTypes),
                            .reduction = reduces(kind) ? Reduction(random() % reduction_count) : Reduction::sum,
                            .root = rooted(kind) ? int(random() % unsigned(ranks)) : 0,
                            .count = random() % size_class};
      const BufferChoice choice{.in_place = random() % 2 == 0, .offset = random() % 3 * 8, .shared = random() % 4 == 0};
      const auto inputs = shared_inputs(call, ranks, std::uint32_t(i));
      ASSERT_NO_FATAL_FAILURE(check_call(call, *inputs, choice, comm, rank)) << "call " << i;
    }
  });
}

// Chosen by time elsewhere, so that any of the other tests may take either way.
TEST(Stores, AroundTheCacheCarryTheSameBits) {
  ::setenv("BUSBW_CPU_STORES", "streaming", 1);
  run_placed(with_sanitizer ? Placement{1, 2} : Placement{2, 1}, [&](ncclComm_t comm, int rank) {
    for (const CollectiveKind kind : kinds) {
      for (const std::size_t count : {1025, 4096, 65537, 150001}) {
        for (const std::size_t offset : {0, 7}) {
          const Collective call{.kind = kind, .type = ncclFloat32, .root = rooted(kind) ? 1 : 0, .count = count};
          const auto inputs = shared_inputs(call, 2, std::uint32_t(count));
          ASSERT_NO_FATAL_FAILURE(check_call(call, *inputs, {.offset = offset}, comm, rank));
        }
      }
    }
  });
  ::unsetenv("BUSBW_CPU_STORES");
}

INSTANTIATE_TEST_SUITE_P(Threads, EveryCollective, ::testing::Values(Placement{1, 2}, Placement{1, 3}, Placement{1, 4}),
                         [](const auto& info) { return name_of(info.param); });
#if !defined(__SANITIZE_THREAD__)
// The thread sanitizer follows one process only, and a thread alone has no race.
INSTANTIATE_TEST_SUITE_P(Alone, EveryCollective, ::testing::Values(Placement{1, 1}),
                         [](const auto& info) { return name_of(info.param); });
INSTANTIATE_TEST_SUITE_P(Processes, EveryCollective,
                         ::testing::Values(Placement{2, 1}, Placement{3, 1}, Placement{2, 2}),
                         [](const auto& info) { return name_of(info.param); });
#endif

}  // namespace
}  // namespace busbw::cpu::test
