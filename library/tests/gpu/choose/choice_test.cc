// Which kernel does which request, and when NCCL does it.
#include "library/gpu/choose/choice.h"

#include <gtest/gtest.h>

#include <random>

#include "library/common/failure.h"
#include "library/gpu/kernels/range.h"

namespace busbw::gpu {
namespace {

constexpr std::uint64_t KiB = 1024;
constexpr std::uint64_t MiB = 1024 * KiB;
const char* const h200 = "NVIDIA H200";

Request all_reduce(std::uint64_t bytes, int ranks = 4, ncclDataType_t type = ncclFloat32) {
  return {Collective::all_reduce, type, ncclSum, bytes / type_bytes(type), ranks};
}

std::string chosen(const Choices& choices, const Request& request) {
  const Choice choice = choices.choose(request);
  if (!choice.accelerated) return "nccl";
  return std::string(name(choice.algorithm)) + "/" + name(choice.protocol);
}

Choices free_choices(const char* gpu = h200) { return Choices::from_settings("", "", gpu); }

std::string failure_of(const std::string& forced, const std::string& table) {
  try {
    Choices::from_settings(forced, table, h200);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(Choices, OnH200GoFromOneShotByTwoShotToNcclWithTheSize) {
  const Choices choices = free_choices();
  EXPECT_EQ(chosen(choices, all_reduce(1 * KiB)), "one_shot/ll");
  EXPECT_EQ(chosen(choices, all_reduce(144 * KiB)), "one_shot/ll");
  EXPECT_EQ(chosen(choices, all_reduce(144 * KiB + 4)), "two_shot/sentinel");
  EXPECT_EQ(chosen(choices, all_reduce(16 * MiB)), "two_shot/sentinel");
  EXPECT_EQ(chosen(choices, all_reduce(24 * MiB)), "two_shot/simple");
  EXPECT_EQ(chosen(choices, all_reduce(64 * MiB)), "two_shot/simple");
  EXPECT_EQ(chosen(choices, all_reduce(128 * MiB)), "nccl");
}

TEST(Choices, StayWithOneShotLongerTheFewerRanksThereAre) {
  const Choices choices = free_choices();
  EXPECT_EQ(chosen(choices, all_reduce(256 * KiB, 2)), "one_shot/ll");
  EXPECT_EQ(chosen(choices, all_reduce(64 * KiB, 3)), "one_shot/ll");
  EXPECT_EQ(chosen(choices, all_reduce(64 * KiB, 8)), "two_shot/sentinel");
}

TEST(Choices, UseNoSentinelsForTypesWhoseBitsMayBeOne) {
  const Choices choices = free_choices();
  EXPECT_EQ(chosen(choices, all_reduce(256 * KiB, 4, ncclInt32)), "two_shot/ll");
  EXPECT_EQ(chosen(choices, all_reduce(2 * MiB, 4, ncclFloat8e4m3)), "two_shot/simple");
  EXPECT_EQ(chosen(choices, all_reduce(1 * MiB, 4, ncclBfloat16)), "two_shot/sentinel");
}

TEST(Choices, MoveMiddleSizesBySentinelsWhateverTheType) {
  const Choices choices = free_choices();
  const auto of = [&](Collective collective, ncclDataType_t type, std::uint64_t bytes, int ranks) {
    const bool whole = collective == Collective::broadcast;
    return chosen(choices,
                  {collective, type, ncclSum, bytes / type_bytes(type) / (whole ? 1 : std::uint64_t(ranks)), ranks});
  };
  for (const Collective collective : {Collective::all_gather, Collective::all_to_all}) {
    EXPECT_EQ(of(collective, ncclInt8, 256 * KiB, 4), "direct/ll");
    EXPECT_EQ(of(collective, ncclInt8, 1 * MiB, 4), "direct/sentinel");
    EXPECT_EQ(of(collective, ncclFloat64, 16 * MiB, 2), "direct/sentinel");
    EXPECT_EQ(of(collective, ncclFloat64, 24 * MiB, 2), "direct/simple");
  }
  EXPECT_EQ(of(Collective::broadcast, ncclUint64, 4 * MiB, 2), "direct/sentinel");
  EXPECT_EQ(of(Collective::broadcast, ncclUint64, 4 * MiB, 4), "scatter_forward/simple");
  EXPECT_EQ(of(Collective::reduce_scatter, ncclFloat32, 1 * MiB, 4), "direct/sentinel");
  EXPECT_EQ(of(Collective::reduce_scatter, ncclInt32, 1 * MiB, 4), "direct/ll");
  EXPECT_EQ(of(Collective::reduce_scatter, ncclInt32, 4 * MiB, 4), "direct/simple");
}

TEST(Choices, OfEveryCollectiveAreAKernelThatExistsAndCanDoIt) {
  std::mt19937_64 random(1);
  const Choices known = free_choices();
  const Choices unknown = free_choices("Another GPU");
  int accelerated = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t count = random() >> (random() % 64);
    const Request request{Collective(random() % collective_count), ncclDataType_t(random() % ncclNumTypes),
                          ncclRedOp_t(random() % ncclNumOps), count, int(2 + random() % 7)};
    for (const Choices* choices : {&known, &unknown}) {
      const Choice choice = choices->choose(request);
      ASSERT_EQ(choice.accelerated, choice.reason.empty());
      if (!choice.accelerated) continue;
      ++accelerated;
      const Layout layout = Layout::of(request.ranks);
      const KernelKind kind{request.collective, choice.algorithm, choice.protocol};
      ASSERT_EQ(obstacle(kind, request, layout), Obstacle::none);
      const ChannelRange range = channel_range(kind, request, layout);
      ASSERT_GE(choice.channels, range.least);
      ASSERT_LE(choice.channels, range.most);
      ASSERT_LE(choice.channels, max_channels);
      ASSERT_GT(choice.threads, 0);
    }
  }
  EXPECT_GT(accelerated, 10000);
}

// What a kernel's loops do with the channels: the largest share of the largest channel, and the smallest.
TEST(ChannelRanges, LetEveryShareFitAndLeaveNoneEmpty) {
  for (const int ranks : {2, 3, 5, 8}) {
    const Layout layout = Layout::of(ranks);
    for (std::uint64_t packs = 1; packs < 2'000'000; packs = packs * 5 / 4 + 1) {
      const Request request{Collective::all_reduce, ncclFloat32, ncclSum, packs * 2, ranks};  // of 8 bytes
      const KernelKind two_shot{Collective::all_reduce, Algorithm::two_shot, Protocol::ll};
      if (!applicable(two_shot, request, layout)) {
        EXPECT_TRUE(packs < std::uint64_t(ranks) || packs > std::uint64_t(max_channels) * ranks * ll_packets) << packs;
        continue;
      }
      const ChannelRange range = channel_range(two_shot, request, layout);
      for (const int channels : {range.least, range.most}) {
        const std::uint64_t longest = packs / channels + (packs % channels != 0);
        EXPECT_LE(longest / ranks + (longest % ranks != 0), ll_packets) << packs;
        EXPECT_GE(packs / channels, std::uint64_t(ranks)) << packs;
      }
    }
  }
}

// The notes about words that were changed on their way go into one line of LL packets.
TEST(Notes, OfAllThreadsFitIntoALine) {
  for (int ranks = 2; ranks <= max_ranks; ++ranks)
    for (std::uint64_t packs = 1; packs <= Layout::of(ranks).sentinel_packs; ++packs)
      for (std::uint64_t threads = 32; threads <= 512; threads += 32)
        ASSERT_LE(notes_of_a_thread(packs, threads) * threads, ll_packets) << packs << " packs, " << threads;
}

TEST(Obstacles, EndExactlyWhereTheScratchDoes) {
  const Layout layout = Layout::of(4);
  const std::uint64_t one_shot = std::uint64_t(layout.channels) * ll_packets * 8;
  const KernelKind kind{Collective::all_reduce, Algorithm::one_shot, Protocol::ll};
  EXPECT_EQ(obstacle(kind, all_reduce(one_shot), layout), Obstacle::none);
  EXPECT_EQ(obstacle(kind, all_reduce(one_shot + 4), layout), Obstacle::too_long);
  const KernelKind two_shot{Collective::all_reduce, Algorithm::two_shot, Protocol::ll};
  EXPECT_EQ(obstacle(two_shot, all_reduce(4 * one_shot), layout), Obstacle::none);
  EXPECT_EQ(obstacle(two_shot, all_reduce(4 * one_shot + 4), layout), Obstacle::too_long);
  EXPECT_EQ(obstacle(two_shot, all_reduce(24), layout), Obstacle::too_short);
  EXPECT_EQ(obstacle(two_shot, all_reduce(28), layout), Obstacle::none);
  const KernelKind sentinel{Collective::all_reduce, Algorithm::two_shot, Protocol::sentinel};
  const std::uint64_t most = std::uint64_t(layout.channels) * layout.sentinel_packs * 16 * 4;
  EXPECT_EQ(obstacle(sentinel, all_reduce(most), layout), Obstacle::none);
  EXPECT_EQ(obstacle(sentinel, all_reduce(most + 4), layout), Obstacle::too_long);
  EXPECT_EQ(obstacle(sentinel, all_reduce(64, 4, ncclInt32), layout), Obstacle::type);
}

TEST(Choices, LeaveToNcclWhatNoKernelDoesAndSayWhy) {
  const Choices choices = free_choices();
  Request request = all_reduce(1024);
  request.op = ncclRedOp_t(ncclNumOps);
  EXPECT_NE(choices.choose(request).reason.find("sum, prod, max, min and avg"), std::string::npos);
  EXPECT_NE(choices.choose(all_reduce(1024, 9)).reason.find("2 to 8 ranks"), std::string::npos);
  EXPECT_NE(choices.choose(all_reduce(0)).reason.find("nothing"), std::string::npos);
  request = all_reduce(1024);
  request.type = ncclDataType_t(99);
  EXPECT_NE(choices.choose(request).reason.find("type"), std::string::npos);
  request = all_reduce(1024);
  request.count = ~std::uint64_t(0);
  EXPECT_FALSE(choices.choose(request).accelerated);
  // An op is no matter where nothing is reduced.
  EXPECT_TRUE(choices.choose({Collective::all_gather, ncclInt8, ncclRedOp_t(77), 100, 4}).accelerated);
}

TEST(Choices, OpenChannelsWithTheSizeAndNoneWithoutWork) {
  const Choices choices = free_choices();
  EXPECT_EQ(choices.choose(all_reduce(1 * KiB)).channels, 1);
  EXPECT_EQ(choices.choose(all_reduce(1 * KiB)).threads, 128);
  EXPECT_EQ(choices.choose(all_reduce(256 * KiB)).channels, 32);
  EXPECT_EQ(choices.choose(all_reduce(256 * KiB)).threads, 128);
  EXPECT_EQ(choices.choose(all_reduce(4 * MiB)).channels, 128);
  EXPECT_EQ(choices.choose(all_reduce(4 * MiB)).threads, 512);
  EXPECT_EQ(choices.choose(all_reduce(32 * MiB, 8)).threads, 320) << "blocks of kernels for 8 ranks are smaller";
  const Choices forced = Choices::from_settings("two_shot/sentinel@64x512", "", h200);
  EXPECT_EQ(forced.choose(all_reduce(1 * MiB)).channels, 64);
  EXPECT_EQ(forced.choose(all_reduce(1 * KiB)).channels, 2);  // 64 packs, 32 a channel
}

TEST(Choices, TakeTheWholeGpuForLongSumsOnlyWhereNothingRunsBesideThem) {
  const Choices alone = free_choices();
  const Choices beside = Choices::from_settings("", "", h200, Preference::overlap);
  for (const int ranks : {2, 4}) {
    EXPECT_EQ(alone.choose(all_reduce(64 * MiB, ranks)).channels, 128);
    EXPECT_EQ(chosen(beside, all_reduce(64 * MiB, ranks)), "nccl");
  }
}

TEST(Choices, GivePipelinesThreeWarpsForEachStage) {
  const Choices forced = Choices::from_settings("two_shot/simple@8x32,all_gather=direct/simple@8x32", "", h200);
  EXPECT_EQ(forced.choose(all_reduce(1 * MiB)).threads, 3 * 96);
  EXPECT_EQ(forced.choose({Collective::all_gather, ncclInt8, ncclSum, 1 * MiB, 4}).threads, 2 * 96);
}

TEST(Choices, LeaveLongMessagesToCopyEnginesWhereTheOutputIsInAWindow) {
  const Choices choices = free_choices();
  Request request{Collective::all_gather, ncclInt8, ncclSum, 64 * MiB, 2};
  EXPECT_EQ(chosen(choices, request), "direct/simple");
  request.window = true;
  EXPECT_EQ(chosen(choices, request), "direct/copy");
  request.ranks = 8;
  EXPECT_EQ(chosen(choices, request), "direct/copy");
  request.window = false;
  EXPECT_EQ(chosen(choices, request), "nccl");
  EXPECT_EQ(chosen(choices, {Collective::all_to_all, ncclInt8, ncclSum, 64 * MiB, 4, true}), "direct/copy");
  EXPECT_EQ(chosen(choices, {Collective::broadcast, ncclInt8, ncclSum, 128 * MiB, 2, true}), "direct/copy");
  // Short ones do not notice.
  EXPECT_EQ(chosen(choices, {Collective::all_gather, ncclInt8, ncclSum, 1 * KiB, 2, true}), "direct/ll");
  const Choices forced = Choices::from_settings("direct/copy", "", h200);
  EXPECT_EQ(chosen(forced, {Collective::all_gather, ncclInt8, ncclSum, 1, 2, true}), "direct/copy");
  EXPECT_NE(forced.choose({Collective::all_gather, ncclInt8, ncclSum, 1, 2}).reason.find("window"), std::string::npos);
  EXPECT_EQ(chosen(forced, all_reduce(1024)), "nccl");
}

TEST(Choices, LeaveLongMessagesToNcclBesideWorkWhereOursCostTheStepMore) {
  const Choices beside = Choices::from_settings("", "", h200, Preference::overlap);
  EXPECT_EQ(chosen(beside, all_reduce(64 * KiB)), "one_shot/ll");
  EXPECT_EQ(chosen(beside, all_reduce(1 * MiB)), "two_shot/sentinel");
  EXPECT_EQ(chosen(beside, all_reduce(25 * MiB)), "nccl");
  EXPECT_EQ(chosen(beside, all_reduce(16 * MiB, 2)), "nccl");
  EXPECT_EQ(chosen(beside, all_reduce(25 * MiB, 2)), "nccl") << "a program may wait for it";
  EXPECT_EQ(chosen(beside, {Collective::reduce_scatter, ncclBfloat16, ncclSum, 12 * MiB, 4}), "nccl");
  EXPECT_EQ(chosen(beside, {Collective::reduce_scatter, ncclBfloat16, ncclSum, 24 * MiB, 2}), "nccl");
  EXPECT_EQ(chosen(beside, {Collective::reduce_scatter, ncclBfloat16, ncclSum, 8 * MiB, 2}), "direct/simple");
  EXPECT_EQ(chosen(beside, {Collective::all_gather, ncclBfloat16, ncclSum, 12 * MiB, 4}), "nccl");
  EXPECT_EQ(chosen(beside, {Collective::all_gather, ncclBfloat16, ncclSum, 24 * MiB, 4, true}), "direct/copy");
  EXPECT_NE(beside.fingerprint(), free_choices().fingerprint()) << "ranks that prefer otherwise must find out";
  EXPECT_EQ(chosen(Choices::from_settings("two_shot/simple", "", h200, Preference::overlap), all_reduce(25 * MiB)),
            "two_shot/simple");
}

Request beside_work(std::uint64_t bytes, int ranks) {
  Request request = all_reduce(bytes, ranks);
  request.beside_work = true;
  return request;
}

TEST(Choices, TakeStagedCopiesForTheGradientsOfDdp) {
  const Choices beside = Choices::from_settings("", "", h200, Preference::overlap);
  for (const int ranks : {2, 4}) {
    EXPECT_EQ(chosen(beside, beside_work(25 * MiB, ranks)), "staged/copy");
    EXPECT_EQ(chosen(beside, beside_work(16 * MiB, ranks)), "nccl");
    EXPECT_EQ(chosen(beside, beside_work(256 * MiB, ranks)), "nccl") << "no step hides what they take longer there";
    EXPECT_TRUE(beside.asks_whether_beside(all_reduce(25 * MiB, ranks)));
    EXPECT_FALSE(beside.asks_whether_beside(all_reduce(16 * MiB, ranks)));
    EXPECT_TRUE(beside.asks_whether_beside(ranks));
  }
  EXPECT_EQ(chosen(beside, beside_work(25 * MiB, 8)), "nccl") << "nobody has measured it";
  EXPECT_FALSE(beside.asks_whether_beside(8));
  EXPECT_FALSE(free_choices().asks_whether_beside(2));
  EXPECT_FALSE(Choices::from_settings("nccl", "", h200, Preference::overlap).asks_whether_beside(2));
}

TEST(Choices, TakeStagedCopiesForWhatFsdpGathersAndScatters) {
  const Choices beside = Choices::from_settings("", "", h200, Preference::overlap);
  for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter}) {
    const auto known = [&](std::uint64_t bytes, int ranks) {
      Request request{collective, ncclInt8, ncclSum, bytes / std::uint64_t(ranks), ranks};
      EXPECT_EQ(chosen(beside, request), ranks == 2 && bytes < 20 * MiB ? "direct/sentinel" : "nccl");
      request.beside_work = true;
      EXPECT_EQ(beside.asks_whether_beside(request), chosen(beside, request) == "staged/copy");
      return chosen(beside, request);
    };
    for (const int ranks : {2, 4, 8}) EXPECT_EQ(known(100 * MiB, ranks), ranks < 8 ? "staged/copy" : "nccl");
    for (const int ranks : {2, 4}) EXPECT_EQ(known(2048 * MiB, ranks), "nccl");
    EXPECT_EQ(known(16 * MiB, 4), "nccl");
  }
  Request in_a_window{Collective::all_gather, ncclInt8, ncclSum, 25 * MiB, 4, true};
  in_a_window.beside_work = true;
  EXPECT_EQ(chosen(beside, in_a_window), "direct/copy") << "one pass instead of two";
}

TEST(Choices, ReduceLongVectorsInWindowsWhereNcclWouldTakeItsSlowerKernels) {
  const Choices alone = free_choices();
  Request request = all_reduce(256 * MiB, 4);
  EXPECT_EQ(chosen(alone, request), "nccl");
  request.in_windows = true;
  EXPECT_EQ(chosen(alone, request), "two_shot/simple");
  EXPECT_EQ(chosen(Choices::from_settings("", "", h200, Preference::overlap), request), "nccl");
  request.ranks = 8;
  EXPECT_EQ(chosen(alone, request), "nccl") << "nobody has measured it";
}

TEST(Choices, HoldARuleForCallsBesideWorkAgainstNoOtherCall) {
  const Choices table =
      Choices::from_settings("", "busbw-table 1\nall_reduce calls=beside two_shot/simple\nall_reduce nccl\n", h200);
  EXPECT_EQ(chosen(table, all_reduce(25 * MiB)), "nccl");
  EXPECT_EQ(chosen(table, beside_work(25 * MiB, 4)), "two_shot/simple");
  const Choices before = Choices::from_settings("", "busbw-table 1\nall_reduce nccl\n", h200, Preference::overlap);
  EXPECT_FALSE(before.asks_whether_beside(all_reduce(25 * MiB, 2))) << "a rule before it decides";
}

TEST(Choices, TakeStagedCopiesInAsManyPiecesAsTheScratchNeeds) {
  const Choices forced = Choices::from_settings("staged/copy", "", h200);
  EXPECT_EQ(chosen(forced, all_reduce(1 * KiB)), "staged/copy");
  EXPECT_EQ(forced.choose(all_reduce(1 * KiB)).channels, 1);
  EXPECT_EQ(forced.choose(all_reduce(16 * MiB)).channels, 1);
  EXPECT_EQ(forced.choose(all_reduce(16 * MiB + 16)).channels, 2);
  EXPECT_EQ(forced.choose(all_reduce(25 * MiB, 2)).channels, 2) << "the links have work while one is added";
  EXPECT_EQ(forced.choose(all_reduce(64 * MiB, 2)).channels, 3) << "the scratch has room for 24 MiB";
  EXPECT_EQ(forced.choose({Collective::all_gather, ncclInt8, ncclSum, 13 * MiB, 4}).channels, 2);
  EXPECT_EQ(chosen(forced, {Collective::broadcast, ncclInt8, ncclSum, 1 * MiB, 4}), "nccl");
  EXPECT_NE(forced.choose(all_reduce(std::uint64_t(3) << 30)).reason.find("longer"), std::string::npos);
  const Choices four = Choices::from_settings("staged/copy@4x32", "", h200);
  EXPECT_EQ(four.choose(all_reduce(1 * MiB)).channels, 4);
  EXPECT_NE(four.choose(all_reduce(128 * MiB)).reason.find("so few channels"), std::string::npos);
}

// One thread that drives several GPUs fills the queue of the first with what waits for the second.
TEST(Choices, TakeNoStagedCopiesWhereAProcessHoldsSeveralRanks) {
  Request request = beside_work(25 * MiB, 2);
  request.staged = Obstacle::shared_process;
  EXPECT_EQ(chosen(Choices::from_settings("", "", h200, Preference::overlap), request), "nccl");
  const Choices forced = Choices::from_settings("staged/copy", "", h200);
  EXPECT_NE(forced.choose(request).reason.find("a process for each rank"), std::string::npos);
}

// As Megatron-LM sets it: products would stand behind the waits of gradients.
TEST(Choices, TakeNoStagedCopiesWhereStreamsShareFewQueues) {
  Request request = beside_work(25 * MiB, 2);
  request.staged = Obstacle::few_queues;
  EXPECT_EQ(chosen(Choices::from_settings("", "", h200, Preference::overlap), request), "nccl");
  const Choices forced = Choices::from_settings("staged/copy", "", h200);
  EXPECT_NE(forced.choose(request).reason.find("CUDA_DEVICE_MAX_CONNECTIONS"), std::string::npos);
}

TEST(ForcedAlgorithms, HoldForOneCollectiveOrForAllOthers) {
  const Choices choices = Choices::from_settings("all_reduce=two_shot/simple,nccl,all_gather=direct/ll", "", h200);
  EXPECT_EQ(chosen(choices, all_reduce(1024)), "two_shot/simple");
  EXPECT_EQ(chosen(choices, {Collective::all_gather, ncclInt8, ncclSum, 100, 4}), "direct/ll");
  EXPECT_EQ(chosen(choices, {Collective::broadcast, ncclInt8, ncclSum, 100, 4}), "nccl");
}

TEST(ForcedAlgorithms, GoToNcclWithTheReasonWhereTheyCannotWork) {
  const Choices choices = Choices::from_settings("two_shot/sentinel", "", h200);
  EXPECT_NE(choices.choose(all_reduce(1024, 4, ncclInt8)).reason.find("type"), std::string::npos);
  EXPECT_NE(choices.choose(all_reduce(64 * MiB)).reason.find("longer"), std::string::npos);
  const Choice gather = choices.choose({Collective::all_gather, ncclFloat32, ncclSum, 100, 4});
  EXPECT_EQ(gather.reason, "BUSBW_ALGORITHM is two_shot/sentinel, but there is no such kernel for this collective");
  const Choices narrow = Choices::from_settings("one_shot/ll@1x128", "", h200);
  EXPECT_EQ(chosen(narrow, all_reduce(4 * KiB)), "one_shot/ll");
  EXPECT_NE(narrow.choose(all_reduce(8 * KiB)).reason.find("so few channels"), std::string::npos);
}

TEST(ForcedAlgorithms, AreRefusedWithOneSentenceWhereTheyAreMisspelt) {
  for (const char* wrong : {"one_shoot/ll", "one_shot", "one_shot/simple", "all_gather=one_shot/ll", "alltoall=nccl",
                            "one_shot/ll@0x128", "one_shot/ll@129x128", "one_shot/ll@4x100", "one_shot/ll@4",
                            "one_shot/ll@", "nccl,nccl", ",", "nccl@1x32", "one_shot/ll@4x128x"}) {
    const std::string sentence = failure_of(wrong, "");
    EXPECT_TRUE(sentence.starts_with("BUSBW_ALGORITHM: ")) << wrong << ": " << sentence;
    EXPECT_TRUE(sentence.ends_with(".")) << sentence;
  }
}

TEST(Tables, DecideBeforeTheBuiltInOneAndOnlyForTheirGpu) {
  const std::string table =
      "busbw-table 1\n# a comment\n\n"
      "gpu NVIDIA H200\nall_reduce ranks=4 type=float,half from=1024 to=2048 two_shot/ll@4x256\nall_gather nccl\n"
      "gpu Other\nall_reduce nccl\n";
  const Choices choices = Choices::from_settings("", table, h200);
  const Choice choice = choices.choose(all_reduce(2048));
  EXPECT_EQ(std::make_tuple(choice.algorithm, choice.protocol, choice.channels, choice.threads),
            std::make_tuple(Algorithm::two_shot, Protocol::ll, 4, 256));
  EXPECT_EQ(chosen(choices, all_reduce(1020)), "one_shot/ll");
  EXPECT_EQ(chosen(choices, all_reduce(2052)), "one_shot/ll");
  EXPECT_EQ(chosen(choices, all_reduce(2048, 3)), "one_shot/ll");
  EXPECT_EQ(chosen(choices, all_reduce(2048, 4, ncclInt32)), "one_shot/ll");
  EXPECT_EQ(choices.choose({Collective::all_gather, ncclInt8, ncclSum, 100, 4}).reason,
            "NCCL is faster there on this table");
  EXPECT_EQ(chosen(Choices::from_settings("", table, "Other"), all_reduce(2048)), "nccl");
}

TEST(Tables, GoOnToTheNextRuleWhereAKernelCannotDoIt) {
  const std::string table = "busbw-table 1\nall_reduce two_shot/sentinel\nall_reduce two_shot/simple@8x64\n";
  const Choices choices = Choices::from_settings("", table, h200);
  EXPECT_EQ(chosen(choices, all_reduce(1024)), "two_shot/sentinel");
  EXPECT_EQ(chosen(choices, all_reduce(1024, 4, ncclInt8)), "two_shot/simple");
}

TEST(Fingerprints, AreEqualForEqualDecisionsOnly) {
  const std::uint64_t plain = free_choices().fingerprint();
  EXPECT_EQ(plain, free_choices().fingerprint());
  EXPECT_EQ(plain, Choices::from_settings("", "busbw-table 1\ngpu Other\nall_reduce nccl\n", h200).fingerprint());
  EXPECT_NE(plain, Choices::from_settings("nccl", "", h200).fingerprint());
  EXPECT_NE(plain, Choices::from_settings("", "busbw-table 1\nall_reduce nccl\n", h200).fingerprint());
  EXPECT_NE(plain, free_choices("Another GPU").fingerprint());
}

}  // namespace
}  // namespace busbw::gpu
