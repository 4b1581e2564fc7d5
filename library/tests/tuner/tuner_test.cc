// The tuner plugin as NCCL calls it, in each version of the interface; and its table, whatever is in the file.
#include <gtest/gtest.h>

#include <random>

#include "library/tests/tuner/host.h"

namespace {

TEST_P(Tuner, AppliesItsRulesAndSaysSoOnce) {
  write(table());
  Host host(GetParam());
  ASSERT_TRUE(host.is_there());
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 1024), (Taken{algo_tree, proto_ll, 0}));
  EXPECT_EQ(host.ask(func_all_reduce, 65536), (Taken{algo_tree, proto_ll, 0}));
  EXPECT_EQ(host.ask(func_all_reduce, 65537), (Taken{algo_ring, proto_ll128, 8}));
  EXPECT_EQ(host.ask(func_all_reduce, 1048577), own_choice);
  EXPECT_EQ(host.ask(func_all_gather, 1000), (Taken{own_choice.algorithm, own_choice.protocol, 16}));
  EXPECT_EQ(host.ask(func_reduce, 1000), own_choice);
  EXPECT_EQ(host.ask(Function(8), 1000), own_choice);
  EXPECT_EQ(host.ask(Function(-3), 1000), own_choice);
  host.end();
  // Another communicator is told nothing again, neither of the table nor of a rule.
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 65537), (Taken{algo_ring, proto_ll128, 8}));
  host.end();
  EXPECT_TRUE(says("INFO TUNER/busbw: " + path() + ": 4 rules are applied to 4 ranks on 1 node\n"));
  EXPECT_EQ(said().find("are applied"), said().rfind("are applied"));
  const std::string rule = "all_reduce of 65537 to 1048576 bytes: ring/ll128, 8 channels";
  EXPECT_TRUE(says(rule));
  EXPECT_EQ(said().find(rule), said().rfind(rule));
}

TEST_P(Tuner, LeavesToNcclWhatNcclCannotDo) {
  // Version 2 has no table of what is possible; the host says that its network cannot reduce.
  const std::string way = GetParam() == 2 ? "collnet_direct/simple" : "ring/ll128 channels=8";
  write("busbw-tuner 1\n" + place() + "rule all_reduce 0 99 " + way + "\nend 1\n");
  Host host(GetParam());
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 8, {algo_ring, proto_ll128, 0}), own_choice);
  EXPECT_TRUE(says("NCCL cannot do " + way.substr(0, way.find(' ')) + " here"));
  host.end();
}

TEST_P(Tuner, SaysNothingOfATableWithoutAlgorithms) {
  if (GetParam() < 5) GTEST_SKIP() << "only newer NCCLs ask so";
  write(table());
  Host host(GetParam());
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  EXPECT_EQ(host.ask_for_other_kernels(func_all_reduce, 70000), 0);
  EXPECT_FALSE(says("all_reduce of 65537"));
  EXPECT_EQ(host.ask(func_all_reduce, 70000), (Taken{algo_ring, proto_ll128, 8}));
  EXPECT_TRUE(says("all_reduce of 65537 to 1048576 bytes: ring/ll128, 8 channels"));
  host.end();
}

TEST_P(Tuner, DoesNotApplyWhatWasMeasuredElsewhere) {
  const std::pair<std::string, std::string> elsewhere[] = {
      {place(4, 1, "2.27.3"), "measured with nccl 2.27.3 (here 2.28.9)"},
      {place(8, 1), "no rules for 4 ranks on 1 node"},
      {place(4, 2), "no rules for 4 ranks on 1 node"},
  };
  std::string other = place();
  other.replace(other.find("topology ") + 9, 4, "0000");
  for (const auto& [where, words] : elsewhere) {
    write(table(where));
    Host host(GetParam());
    ASSERT_EQ(host.begin(4, 1), ncclSuccess);
    EXPECT_EQ(host.ask(func_all_reduce, 1024), own_choice);
    EXPECT_TRUE(says(words)) << said();
    host.end();
  }
  write(table(other));
  Host host(GetParam());
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 1024), own_choice);
  EXPECT_TRUE(says("measured with topology 0000")) << said();
  host.end();
}

TEST_P(Tuner, TakesThePlaceThatFitsOfSeveral) {
  write("busbw-tuner 1\n" + place(2) + "rule all_reduce 0 10 tree/ll\n" + place(4) +
        "rule all_reduce 0 10 nvls/simple\nend 2\n");
  Host host(GetParam());
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 8), (Taken{algo_nvls, proto_simple, 0}));
  host.end();
}

TEST_P(Tuner, GoesOnWhateverTheFileIs) {
  const std::string whole = table();
  const std::pair<std::string, std::string> files[] = {
      {"", "it is empty"},
      {"busbw-tuner 2\nanything\n", "it is of version 2, and this plugin reads version 1"},
      {"busbw-table 1\ngpu any\n", "its first line is not `busbw-tuner 1`"},
      {"collective_type,min_bytes,max_bytes,algorithm\nallreduce,0,65536,tree,ll,2,1,4,-1,-1\n",
       "its first line is not"},
      {whole.substr(0, whole.size() - 6), "the file was cut off"},
      {whole.substr(0, whole.size() - 1), "the file was cut off"},
      {whole.substr(0, whole.size() / 2), "the file was cut off"},
      {"busbw-tuner 1\n" + place() + "rule all_reduce 5 4 tree/ll\nend 1\n",
       "line 9: a rule without a first and a last size"},
      {"busbw-tuner 1\n" + place() + "rule all_reduce 0 4 collnet_chain/simple channels=2\nend 1\n",
       "channels for collnet"},
      {"busbw-tuner 1\nmeasured\nnccl 2.28.9\nrule all_reduce 0 4 tree/ll\nend 1\n", "a place lacks one of"},
      {"busbw-tuner 1\n" + place() + "rule \x1b[31mred 0 4 tree/ll\nend 1\n", "a rule for `?[31mred`"},
      {"busbw-tuner 1\r\nmeasured\r\n", "its lines end with CR and LF"},
      {"\xef\xbb\xbf" + whole, "it begins with a byte order mark"},
      {"busbw-tuner 1\nmeasured\ngpu NVIDIA \x1b[31mH200\nend 0\n",
       "line 3: a value of gpu that is long or not printable"},
      {std::string("busbw-tuner 1\nmeasured\ngpu no\0ne\nend 0\n", 38), "line 3: a value of gpu"},
      {"\x7f"
       "ELF" +
           std::string(100, '\0'),
       "its first line"},
  };
  for (const auto& [text, words] : files) {
    write(text);
    lines.clear();
    Host host(GetParam());
    ASSERT_EQ(host.begin(4, 1), ncclSuccess);
    EXPECT_EQ(host.ask(func_all_reduce, 1024), own_choice);
    host.end();
    EXPECT_EQ(lines.size(), 1U) << said();
    EXPECT_TRUE(says("WARN TUNER/busbw: " + path() + " is not applied: ")) << said();
    EXPECT_TRUE(says(words)) << said();
    EXPECT_TRUE(says("NCCL decides by itself"));
  }
}

TEST_P(Tuner, WaitsForNoFifoAndReadsNoFolder) {
  std::filesystem::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  Host host(GetParam());
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  EXPECT_TRUE(says("no regular file"));
  host.end();
  setenv("BUSBW_TUNER_TABLE", folder_.c_str(), 1);
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 8), own_choice);
  host.end();
}

TEST_P(Tuner, SeveralNodesNeedAWordAndOneThatDiffersEndsTheJob) {
  write(table(place(4, 2)));
  const std::string hash = read_table(path().c_str()).hash;
  Host host(GetParam());
  ASSERT_EQ(host.begin(4, 2), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 8), own_choice);
  EXPECT_TRUE(says("BUSBW_TUNER_ALIKE=" + hash));
  host.end();
  setenv("BUSBW_TUNER_ALIKE", hash.c_str(), 1);
  ASSERT_EQ(host.begin(4, 2), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 8), (Taken{algo_tree, proto_ll, 0}));
  host.end();
  // A communicator that nothing was measured for is the same on all nodes.
  ASSERT_EQ(host.begin(2, 2), ncclSuccess);
  EXPECT_EQ(host.ask(func_all_reduce, 8), own_choice);
  host.end();
  version_code = 22703;
  EXPECT_EQ(host.begin(4, 2), ncclInvalidUsage);
  version_code = 22809;
  setenv("BUSBW_TUNER_ALIKE", "0123456789abcdef", 1);
  EXPECT_EQ(host.begin(4, 2), ncclInvalidUsage);
  std::filesystem::remove(path());
  EXPECT_EQ(host.begin(4, 2), ncclInvalidUsage);
  // One node asks nobody.
  EXPECT_EQ(host.begin(4, 1), ncclSuccess);
  host.end();
}

TEST_P(Tuner, WritesWhatItRunsOn) {
  const std::string out = folder_ / "facts.txt";
  setenv("BUSBW_TUNER_FACTS", out.c_str(), 1);
  write(table());
  Host host(GetParam());
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  host.end();
  std::stringstream text;
  text << std::ifstream(out).rdbuf();
  EXPECT_EQ(text.str(), place());
}

TEST_P(Tuner, WritesItsFactsThroughANameOfItsOwn) {
  // Another thread, or a process with this number on another node, is about to write.
  const std::string out = folder_ / "facts.txt", other = out + "." + std::to_string(getpid());
  std::filesystem::create_directory(other);
  setenv("BUSBW_TUNER_FACTS", out.c_str(), 1);
  write(table());
  Host host(GetParam());
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  host.end();
  EXPECT_TRUE(std::filesystem::is_regular_file(out));
  std::filesystem::remove(other);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);  // the facts and the table
}

TEST_P(Tuner, SaysThatFactsCannotBeWritten) {
  const std::string out = folder_ / ("none" + std::to_string(GetParam())) / "facts.txt";
  setenv("BUSBW_TUNER_FACTS", out.c_str(), 1);
  write(table());
  Host host(GetParam());
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  host.end();
  EXPECT_TRUE(says(out + " of BUSBW_TUNER_FACTS cannot be written: No such file")) << said();
}

TEST_P(Tuner, PutsItsFactsInThePlaceOfNoDevice) {
  const std::string out = folder_ / "pipe";
  ASSERT_EQ(mkfifo(out.c_str(), 0600), 0);
  setenv("BUSBW_TUNER_FACTS", out.c_str(), 1);
  write(table());
  Host host(GetParam());
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  host.end();
  EXPECT_TRUE(std::filesystem::is_fifo(out));
}

INSTANTIATE_TEST_SUITE_P(Interface, Tuner, testing::Values(2, 3, 4, 5, 6, 7));

TEST_F(Tuner, OldestInterfaceIsNotOffered) {
  EXPECT_FALSE(Host(1).is_there());
  EXPECT_FALSE(Host(8).is_there());
}

TEST_F(Tuner, SetsChunks) {
  write(table());
  for (const int version : {6, 7}) {
    Host host(version);
    ASSERT_EQ(host.begin(4, 1), ncclSuccess);
    EXPECT_EQ(host.chunk(func_broadcast, 1000, algo_ring, proto_ll), 65536U);
    EXPECT_EQ(host.chunk(func_broadcast, 1000, algo_ring, proto_simple), 4096U);
    EXPECT_EQ(host.chunk(func_all_reduce, 1000, algo_tree, proto_ll), 4096U);
    host.end();
  }
}

TEST_F(Tuner, SmallerTablesOfCostsAreNotOverrun) {
  write("busbw-tuner 1\n" + place() + "rule all_reduce 0 10 pat/simple\nend 1\n");
  Host host(3);
  ASSERT_EQ(host.begin(4, 1), ncclSuccess);
  host.end();
  const auto* plugin = static_cast<const TunerV3*>(dlsym(dlopen(BUSBW_TEST_TUNER, RTLD_NOW), "ncclTunerPlugin_v3"));
  void* context = nullptr;
  ASSERT_EQ(plugin->init(4, 1, log_line, &context), ncclSuccess);
  std::vector<float> costs(std::size_t(algorithms - 1) * protocols, 3.0F);
  int channels = 0;
  EXPECT_EQ(plugin->get_coll_info(context, func_all_reduce, 8, 1, reinterpret_cast<float**>(costs.data()),
                                  algorithms - 1, protocols, &channels),
            ncclSuccess);
  EXPECT_EQ(costs, std::vector<float>(costs.size(), 3.0F));
  // One protocol less: what lies behind the row's end is another algorithm's.
  EXPECT_EQ(plugin->get_coll_info(context, func_all_reduce, 8, 1, reinterpret_cast<float**>(costs.data()), 7,
                                  protocols - 1, &channels),
            ncclSuccess);
  EXPECT_EQ(costs, std::vector<float>(costs.size(), 3.0F));
  EXPECT_EQ(plugin->get_coll_info(nullptr, func_all_reduce, 8, 1, nullptr, 0, 0, &channels), ncclSuccess);
  plugin->destroy(context);
}

TEST_F(Tuner, TopologyTellsMachinesApart) {
  const auto device = [&](const std::string& bus, const std::string& kind, const std::string& vendor,
                          const std::string& id) {
    const auto place = folder_ / "devices" / bus;
    std::filesystem::create_directories(place);
    std::ofstream(place / "class") << kind << "\n";
    std::ofstream(place / "vendor") << vendor << "\n";
    std::ofstream(place / "device") << id << "\n";
    std::ofstream(place / "numa_node") << "0\n";
  };
  const std::string devices = folder_ / "devices";
  device("0000:01:00.0", "0x030200", "0x10de", "0x2335");
  device("0000:02:00.0", "0x030200", "0x10de", "0x2335");
  device("0000:03:00.0", "0x010802", "0x144d", "0xa80a");
  const Topology two = topology_of(devices.c_str(), nullptr);
  EXPECT_FALSE(two.mixed);
  std::filesystem::rename(folder_ / "devices/0000:02:00.0", folder_ / "devices/0001:02:00.0");
  std::filesystem::remove_all(folder_ / "devices/0000:03:00.0");  // a disk
  EXPECT_EQ(topology_of(devices.c_str(), nullptr).hash, two.hash);
  std::ofstream(folder_ / "topo.xml") << "<system/>";
  EXPECT_NE(topology_of(devices.c_str(), (folder_ / "topo.xml").c_str()).hash, two.hash);
  device("0000:04:00.0", "0x020700", "0x15b3", "0x1021");
  EXPECT_NE(topology_of(devices.c_str(), nullptr).hash, two.hash);
  device("0000:05:00.0", "0x030200", "0x10de", "0x2330");
  EXPECT_TRUE(topology_of(devices.c_str(), nullptr).mixed);
  EXPECT_EQ(topology_of("/nowhere", nullptr).hash, topology_of("/nowhere/else", "").hash);
}

TEST(TunerTable, HoldsWhatTheTextSays) {
  const std::string text = table();
  const auto read = parse_table(text);
  ASSERT_TRUE(std::holds_alternative<Table>(read)) << std::get<std::string>(read);
  const Table& found = std::get<Table>(read);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].place.nccl, "2.28.9");
  EXPECT_EQ(found[0].place.ranks, 4U);
  ASSERT_EQ(found[0].rules.size(), 4U);
  EXPECT_EQ(found[0].rules[1].channels, 8);
  EXPECT_EQ(found[0].rules[3].chunk, 65536U);
  EXPECT_EQ(found[0].rules[2].algorithm, algo_undefined);
}

// Whatever is in a file, reading ends with a table within its bounds or with one short printable sentence.
TEST(TunerTable, FuzzedTextIsATableOrASentence) {
  std::mt19937 random(20261122);
  const std::string whole = table();
  const std::string words[] = {"rule ",
                               "end ",
                               "measured\n",
                               "ranks 4\n",
                               "18446744073709551616",
                               "-1",
                               "\n",
                               "\n\n",
                               "/",
                               "=",
                               "channels=",
                               "chunk=",
                               std::string(600, 'x'),
                               std::string("\0\x1b\xff", 3),
                               "tree/ll",
                               " "};
  int tables = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string text = whole;
    for (int changes = int(random() % 4) + 1; changes > 0; --changes) {
      const std::size_t at = random() % (text.size() + 1);
      switch (random() % 5) {
        case 0:
          text.resize(at);
          break;
        case 1:
          text.insert(at, words[random() % std::size(words)]);
          break;
        case 2:
          text.erase(at, random() % 20);
          break;
        case 3:
          if (at < text.size()) text[at] = char(random());
          break;
        default:
          text.insert(at, text.substr(random() % (text.size() + 1), random() % 200));
      }
    }
    const auto read = parse_table(text);
    if (const std::string* why = std::get_if<std::string>(&read)) {
      ASSERT_FALSE(why->empty());
      ASSERT_LT(why->size(), 200U);
      for (const char each : *why) ASSERT_TRUE(each >= ' ' && each <= '~');
      continue;
    }
    ++tables;
    for (const Measured& each : std::get<Table>(read)) {
      ASSERT_LE(each.rules.size(), max_rules);
      for (const Rule& rule : each.rules) {
        ASSERT_TRUE(rule.function >= 0 && rule.function < functions && rule.from <= rule.to);
        ASSERT_TRUE(rule.algorithm < algorithms && rule.protocol < protocols && rule.channels >= 0 &&
                    rule.channels <= 64);
      }
    }
  }
  EXPECT_GT(tables, 100);  // else only refusals were tried
}

TEST(TunerTable, TooManyRulesAndPlacesAreRefused) {
  std::string many = "busbw-tuner 1\n" + place();
  for (std::size_t i = 0; i <= max_rules; ++i) many += "rule all_reduce 0 1 tree/ll\n";
  EXPECT_TRUE(std::holds_alternative<std::string>(parse_table(many + "end 10001\n")));
  std::string places = "busbw-tuner 1\n";
  for (std::size_t i = 0; i <= max_places; ++i) places += place();
  EXPECT_TRUE(std::holds_alternative<std::string>(parse_table(places + "end 0\n")));
}

TEST(TunerTable, NumbersAndLinesAreTakenUpToTheirBoundsAndNotBeyond) {
  const auto is_table = [](const std::string& line, const std::string& end) {
    return std::holds_alternative<Table>(parse_table("busbw-tuner 1\n" + place() + line + "\nend " + end + "\n"));
  };
  const auto taken = [&](const std::string& details) { return is_table("rule all_reduce 0 1 " + details, "1"); };
  EXPECT_TRUE(taken("ring/ll chunk=1073741824"));
  EXPECT_FALSE(taken("ring/ll chunk=1073741825"));
  EXPECT_FALSE(taken("ring/ll chunk=0"));
  EXPECT_TRUE(taken("ring/ll channels=64"));
  EXPECT_FALSE(taken("ring/ll channels=65"));
  EXPECT_FALSE(taken("ring/ll channels=0"));
  EXPECT_TRUE(is_table("#" + std::string(511, 'x'), "0"));
  EXPECT_FALSE(is_table("#" + std::string(512, 'x'), "0"));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ncclResult_t ncclGetVersion(int* version) {
  *version = version_code;
  return ncclSuccess;
}
