// Which variables reach a record.
#include "engine/record/environment.h"

#include <gtest/gtest.h>

#include <pthread.h>

#include <cstdio>
#include <fstream>

namespace busbw {
namespace {

// A secret that the cut at 4,096 bytes goes through is hidden before it is cut, whatever stands behind it.
TEST(RelevantEnvironment, HidesASecretThatTheCutGoesThrough) {
  const std::string token = "hf_Ab3dE5gH7jK9mN1pQ3sT5uV7wX9yZ1aB3c", address = "https://me:otter-47Gate@host/x";
  for (const std::size_t at : {4060u, 4070u, 4080u, 4086u, 4091u, 8150u, 8180u}) {
    for (const std::string& secret : {token, address}) {
      const std::string entry = "NCCL_X=" + std::string(at, ' ') + secret + std::string(9000, ' ');
      const char* const environment[] = {entry.c_str(), nullptr};
      const std::string shown = relevant_environment(environment).at(0).second;
      EXPECT_EQ(shown.find("Ab3d"), shown.npos) << at;
      EXPECT_EQ(shown.find("me:o"), shown.npos) << at;
    }
  }
}

// What is hidden makes room for what was searched last, where a secret may have been cut.
TEST(RelevantEnvironment, ShowsNoEndOfWhatWasSearched) {
  const std::string key = "https://me:" + std::string(390, 'p') + "@h ";
  std::string value;
  while (value.size() < 8180) value += key;
  value.resize(8192 - 6);
  const std::string entry = "NCCL_X=" + value + "hf_Ab3dE5gH7jK9mN1pQ3sT5uV7wX9yZ1aB3c";
  const char* const environment[] = {entry.c_str(), nullptr};
  EXPECT_EQ(relevant_environment(environment).at(0).second.find("hf_"), std::string::npos);
}

// `ulimit -s 512` and a long value ended the process: regular expressions of the standard library call themselves.
TEST(RelevantEnvironment, NeedsNoLargeStack) {
  const std::string entry = "NCCL_X=-----BEGIN PRIVATE KEY-----" + std::string(50'000, 'A');
  const char* const environment[] = {entry.c_str(), nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t small{};
  std::string shown;
  const auto search = [&] { shown = relevant_environment(environment).at(0).second; };
  const auto call = [](void* what) -> void* {
    (*static_cast<decltype(search)*>(what))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&small, &attributes, call, const_cast<void*>(static_cast<const void*>(&search))), 0);
  pthread_join(small, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(shown, "-----BEGIN PRIVATE KEY-----***");
}

TEST(RelevantVariables, KeepThoseOfLibrariesAndLaunchers) {
  for (const char* name : {"NCCL_DEBUG",
                           "NCCL_TESTS_SPLIT",
                           "CUDA_VISIBLE_DEVICES",
                           "UCX_TLS",
                           "OMPI_MCA_btl",
                           "OMPI_COMM_WORLD_RANK",
                           "SLURM_JOB_ID",
                           "BUSBW_RANK",
                           "LD_LIBRARY_PATH",
                           "LD_PRELOAD",
                           "OFI_NCCL_PROTOCOL",
                           "TORCH_NCCL_BLOCKING_WAIT",
                           "PYTORCH_CUDA_ALLOC_CONF",
                           "RDMAV_FORK_SAFE",
                           "GLIBC_TUNABLES",
                           "I_MPI_FABRICS",
                           "PMIX_MCA_gds",
                           "OMP_NUM_THREADS",
                           "PMI_RANK",
                           "PMIX_RANK",
                           "RANK",
                           "WORLD_SIZE",
                           "FI_PROVIDER"})
    EXPECT_TRUE(is_relevant_variable(name)) << name;
}

TEST(RelevantVariables, LeaveOutEverythingElse) {
  for (const char* name : {"HOME", "PATH", "USER", "AWS_REGION", "NCCL", "XNCCL_DEBUG", "RANKS", ""})
    EXPECT_FALSE(is_relevant_variable(name)) << name;
}

TEST(RelevantVariables, LeaveOutWhateverMayBeASecret) {
  for (const char* name : {"BUSBW_SECRET", "SLURM_JWT", "NCCL_API_KEY", "OMPI_MCA_auth_token", "UCX_PASSWORD",
                           "SLURM_Credential", "BUSBW_COOKIE", "CUDA_PRIVATE_THING", "NCCL_OAUTH"})
    EXPECT_FALSE(is_relevant_variable(name)) << name;
}

TEST(ActingFiles, AreToldByTheStartOfTheirHash) {
  const std::string path = ::testing::TempDir() + "acting_graph.xml";
  const std::string variable = "NCCL_GRAPH_FILE=" + path, home = "HOME=" + ::testing::TempDir() + "nobody";
  const char* const environment[] = {
      variable.c_str(),           home.c_str(), "NCCL_TOPO_FILE=no_such.xml", "NCCL_TUNER_PLUGIN=/",
      "LD_PRELOAD=/no/such/file", nullptr};
  const auto of_graph = [&] {
    for (const auto& [name, hash] : acting_files(environment, 22809))
      if (name == "file of NCCL_GRAPH_FILE") return hash;
    return std::string();
  };
  std::ofstream(path) << "<graphs/>";
  const std::string first = of_graph();
  std::ofstream(path) << "<graphs version='1'/>";
  EXPECT_EQ(first.size(), 12u);
  EXPECT_NE(first, of_graph());
  for (const auto& [name, hash] : acting_files(environment, 22809))
    EXPECT_TRUE(name == "file of NCCL_GRAPH_FILE" || name.starts_with("file /")) << name;
  std::remove(path.c_str());
  EXPECT_EQ(of_graph(), "");
}

TEST(RelevantEnvironment, IsSortedAndCut) {
  const std::string longest = "NCCL_LONG=" + std::string(10'000, 'x');
  const char* const environment[] = {
      "UCX_TLS=sm", longest.c_str(), "BUSBW_SECRET=0123", "NCCL_DEBUG=a=b", "HOME=/root", "NCCL_NOTHING", nullptr};
  const Variables kept = relevant_environment(environment);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0], (std::pair<std::string, std::string>("NCCL_DEBUG", "a=b")));
  EXPECT_EQ(kept[1].second.size(), 4096u);
  EXPECT_EQ(kept[2].first, "UCX_TLS");
}

TEST(RelevantVariables, KeepThoseWhoseWordsOnlyLookLikeASecret) {
  for (const char* name : {"NCCL_IB_PKEY", "NCCL_PAT_ENABLE", "NCCL_TOKENIZER", "UCX_KEY_VALUE_SIZE", "SLURM_BYPASS"})
    EXPECT_TRUE(is_relevant_variable(name)) << name;
  for (const char* name : {"NCCL_IB_PKEY_TOKEN", "MY_NCCL_PAT_ENABLE", "NCCL_TOKENIZER_KEY", "NCCL_AUTHORIZATION"})
    EXPECT_FALSE(is_relevant_variable(name)) << name;
}

TEST(RelevantEnvironment, HidesAssignmentsToSecretsWithinAValue) {
  const char* const environment[] = {"SLURM_EXPORT_ENV=ALL,WANDB_API_KEY=otter,NCCL_IB_PKEY=3,A='b'",
                                     "SLURM_COMMENT=DB_PASS='two words' x=$Y TOKEN=$Z", nullptr};
  const Variables kept = relevant_environment(environment);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].second, "DB_PASS=*** x=$Y TOKEN=$Z");
  EXPECT_EQ(kept[1].second, "ALL,WANDB_API_KEY=***,NCCL_IB_PKEY=3,A='b'");
}

TEST(RelevantEnvironment, HidesWhatANameWithAColonAnnounces) {
  const std::pair<const char*, const char*> values[] = {
      {"api_key: 0123456789abcdef0123", "api_key: ***"},
      {"{\"routing_key\": \"a1b2c3d4\", \"port\": 1}", "{\"routing_key\": ***, \"port\": 1}"},
      {"a: 1, db_password:   otter47, b: 2", "a: 1, db_password:   ***, b: 2"},
      {"Ocp-Apim-Subscription-Key: a1b2c3d4", "Ocp-Apim-Subscription-Key: ***"},
      {"ldap_authtok = otter-47", "ldap_authtok = ***"},
      {"--lr=0.1 --api-key=otter", "--lr=0.1 --api-key=***"},
      {"tcp://node1:29500,key: 5", "tcp://node1:29500,key: 5"},
      {"/usr/lib:/opt/secret/lib:/x=1", "/usr/lib:/opt/secret/lib:/x=1"},
      {"the token: is missing", "the token: is missing"},
      {"a=b:TOKEN=otter:c", "a=b:TOKEN=***"},
  };
  for (const auto& [value, shown] : values) {
    const std::string entry = std::string("NCCL_X=") + value;
    const char* const environment[] = {entry.c_str(), nullptr};
    EXPECT_EQ(relevant_environment(environment).at(0).second, shown);
  }
}

TEST(RelevantEnvironment, LeavesWhatTellsNothingBehindANameOfASecret) {
  for (const char* entry : {"NCCL_X=max_new_tokens=512", "NCCL_X=AuthType=auth/munge",
                            "NCCL_X=password_file=/etc/secret/pw", "NCCL_X=passwordRef=vaultname",
                            "NCCL_X=token_ids=[1, 2, 3]", "NCCL_X=x --auth-method basic1 --max-tokens 4k"}) {
    const char* const environment[] = {entry, nullptr};
    EXPECT_EQ("NCCL_X=" + relevant_environment(environment).at(0).second, entry);
  }
  for (const char* entry : {"NCCL_X=token=otter-47", "NCCL_X=TOKEN=1234567", "NCCL_X=tokens=otter-47",
                            "NCCL_X=password=/Otter47", "NCCL_X=x --auth-token basic1"}) {
    const char* const environment[] = {entry, nullptr};
    EXPECT_NE(relevant_environment(environment).at(0).second.find("***"), std::string::npos) << entry;
  }
}

TEST(RelevantEnvironment, HidesAWordThatLooksDrawn) {
  const char* const environment[] = {"NCCL_X=with Zq3kV0w9Xx81Lm22Pp7sTtAa here", "NCCL_Y=/opt/nccl_2.28.9-1/lib",
                                     nullptr};
  const Variables kept = relevant_environment(environment);
  EXPECT_EQ(kept[0].second, "with *** here");
  EXPECT_EQ(kept[1].second, "/opt/nccl_2.28.9-1/lib");
}

TEST(RelevantEnvironment, TakesAnEmptyOne) {
  const char* const nothing[] = {nullptr};
  EXPECT_TRUE(relevant_environment(nothing).empty());
  EXPECT_TRUE(relevant_environment(nullptr).empty());
}

TEST(FullEnvironment, IsEverything) {
  const char* const environment[] = {"HOME=/root", "BUSBW_SECRET=0123", nullptr};
  EXPECT_EQ(full_environment(environment).size(), 2u);
}

}  // namespace
}  // namespace busbw
