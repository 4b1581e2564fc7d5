// Every reader of foreign bytes in the engine, fed by foreign_bytes.h.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/app/options.h"
#include "engine/app/size.h"
#include "engine/collectives/collective.h"
#include "engine/core/gpu_snapshot.h"
#include "engine/core/visible.h"
#include "engine/library_api/discovery.h"
#include "engine/platform/affinity.h"
#include "engine/record/environment.h"
#include "engine/record/random_words.h"
#include "engine/rendezvous/join/environment.h"
#include "engine/rendezvous/join/handshake.h"
#include "engine/rendezvous/join/meeting_file.h"
#include "engine/rendezvous/join/node_list.h"
#include "engine/rendezvous/join/pmi1.h"
#include "engine/rendezvous/net/wire.h"
#include "engine/tests/foreign_bytes.h"

namespace busbw {
namespace {

using namespace testing::foreign_bytes;

std::vector<std::string> split(std::string_view data, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : data) {
    if (c == separator)
      parts.emplace_back();
    else if (c != '\0')
      parts.back() += c;
  }
  return parts;
}

// What a body says, read and written again, is the body: nothing is read past what was checked.
template <typename Read, typename Write>
void again(std::string_view body, Read read, Write write) {
  const std::string frame = write(read(body));
  if (frame.substr(frame_header_bytes) != body) throw std::logic_error("a message changes when it is written again");
}

void read_body(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::hello:
      return again(frame.body, read_hello, encode_hello);
    case FrameKind::challenge:
      return void(read_challenge(frame.body));
    case FrameKind::proof:
      return void(read_proof("secret", std::string(nonce_bytes, 'x'), std::string(nonce_bytes, 'y'), frame.body));
    case FrameKind::start:
      return void(read_start(frame.body));
    case FrameKind::contribution:
      return again(frame.body, read_contribution, [](const Contribution& it) { return encode(it); });
    case FrameKind::result:
      return again(frame.body, read_result, [](const Result& it) { return encode(it); });
    case FrameKind::failure:
      return void(read_failure(frame.body));
    case FrameKind::leave:
      return void(BodyReader(frame.body).number(4));
    case FrameKind::refusal:
    case FrameKind::heartbeat:
    case FrameKind::all_left:
      return;
  }
}

// In two pieces, as a stream may bring them.
void read_frames(std::string_view data) {
  FrameReader reader(member_limit);
  for (const std::string_view piece : {data.substr(0, data.size() / 3), data.substr(data.size() / 3)}) {
    reader.feed(piece);
    while (const auto frame = reader.next()) read_body(*frame);
  }
}

std::vector<std::string> frames() {
  const std::string x(nonce_bytes, 'x'), y(nonce_bytes, 'y');
  const Member member{.version = "0.1.0", .process = 1, .processes = 2, .pid = 77, .host = "h", .host_identity = "i"};
  return {encode_hello(x),
          encode_challenge("secret", x, y),
          encode_proof("secret", x, y, member),
          encode(FrameKind::refusal, "why"),
          encode_start({member, member}),
          encode(Contribution{.call = 2, .sequence = 7, .members = 2, .data = "abc"}),
          encode(Result{.sequence = 7, .parts = {"a", "bc", ""}}),
          encode(Failure{.process = 1, .code = ExitCode::nccl, .sentence = "no"}),
          encode(FrameKind::leave, BodyWriter().number(1, 4).take()) + encode(FrameKind::heartbeat)};
}

void read_member_of(std::string_view data) {
  BodyReader reader(data);
  describe(read_member(reader));
}

void read_pmi(std::string_view data) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor ours(ends[0]), theirs(ends[1]);
  ASSERT_EQ(write(theirs.get(), data.data(), data.size()), static_cast<ssize_t>(data.size()));
  shutdown(theirs.get(), SHUT_WR);
  Pmi1 pmi(ours.get(), Clock::now() + std::chrono::seconds(5));
  pmi.put("key", "value");
  pmi.barrier();
  pmi.get("key");
}

void read_environment(std::string_view data) {
  Environment environment;
  for (const std::string& line : split(data, '\n')) {
    const std::size_t equals = std::min(line.find('='), line.size());
    environment[line.substr(0, equals)] = line.substr(std::min(equals + 1, line.size()));
  }
  plan_join(environment);
}

void read_variables(std::string_view data) {
  const std::vector<std::string> lines = split(data, '\n');
  std::vector<const char*> environment;
  for (const std::string& line : lines) environment.push_back(line.c_str());
  environment.push_back(nullptr);
  for (const auto& [name, value] : relevant_environment(environment.data()))
    if (value == "hf_abcdefABCDEF012345") throw std::logic_error("a secret is kept under " + name);
  full_environment(environment.data());
}

void read_words(std::string_view data) {
  const std::vector<std::string> words = split(data, '\n');
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const Command command = parse_command_line(static_cast<int>(arguments.size()), arguments.data(),
                                             [](const char*) -> const char* { return nullptr; });
  if (command.kind == Command::Kind::measure) check_ranks(command.plan, 2);
}

void read_snapshot(std::string_view data) {
  const std::string once = to_line(from_line(std::string(data)));
  if (to_line(from_line(once)) != once) throw std::logic_error("a snapshot changes when it is read again");
}

void read_matrix(std::string_view data) {
  static Scratch scratch;
  setenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", scratch.with(data).c_str(), 1);
  try {
    traffic_from_environment();
  } catch (...) {
    unsetenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
    throw;
  }
  unsetenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
}

void show(std::string_view data) {
  for (const char c : visible(data))
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
      throw std::logic_error("a control character passes");
}

const std::vector<std::string> environments{
    "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=4\nOMPI_COMM_WORLD_LOCAL_RANK=1\nOMPI_COMM_WORLD_LOCAL_SIZE=4\n"
    "OMPI_MCA_orte_hnp_uri=1.0;tcp://10.0.0.1:1",
    "PMI_RANK=0\nPMI_SIZE=2\nPMI_FD=7\nMPI_LOCALRANKID=0\nMPI_LOCALNRANKS=2",
    "SLURM_PROCID=1\nSLURM_STEP_ID=0\nSLURM_STEP_NUM_TASKS=4\nSLURM_STEP_NODELIST=n[1-2]\nSLURM_LOCALID=1\n"
    "SLURM_STEP_TASKS_PER_NODE=2(x2)\nSLURM_JOB_ID=9",
    "RANK=1\nWORLD_SIZE=2\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=10.0.0.1\nMASTER_PORT=29500\n"
    "TORCHELASTIC_RUN_ID=x",
    "BUSBW_RANK=0\nBUSBW_WORLD_SIZE=2\nBUSBW_ADDRESS=h:1\nBUSBW_SECRET=s\nBUSBW_LISTEN_FD=5\n"
    "BUSBW_PORT_RANGE=21000-21009\nBUSBW_JOIN_TIMEOUT=5\nBUSBW_HOSTS=a,b"};

const std::vector<Reader>& readers() {
  static Scratch scratch;
  static const std::vector<Reader> all{
      {"frames", read_frames, frames()},
      {"members", read_member_of, {encode_start({Member{.version = "1", .host = "h"}}).substr(9)}},
      {"endpoints",
       [](std::string_view data) { to_string(parse_endpoint(data, "BUSBW_ADDRESS")); },
       {"host", "host:29500", "127.0.0.1:80", "[fe80::1]:29500"}},
      {"launchers", read_environment, environments},
      {"node lists",
       [](std::string_view data) { expand_node_list(data); },
       {"node[01-03,07],login", "a,b,c", "r[1-2]n[3-4]"}},
      {"tasks per node", [](std::string_view data) { expand_tasks_per_node(data); }, {"2(x3),1", "4"}},
      {"meeting files",
       [](std::string_view data) { read_meeting(scratch.with(data)); },
       {"busbw meeting 1\nport 12345\nsecret 00112233445566778899aabbccddeeff\n"}},
      {"PMI",
       read_pmi,
       {"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=my_kvsname kvsname=kvs_1\n"
        "cmd=put_result rc=0 msg=success\ncmd=barrier_out\ncmd=get_result rc=0 msg=success value=10.0.0.1:5\n"
        "cmd=finalize_ack\n"}},
      {"command lines",
       read_words,
       {"all_reduce\n-b\n8\n-e\n8G\n-f\n2\n-d\nall\n-o\nsum,max\n--precision\n1%\n-r\nall",
        "alltoallv\n-b\n1M\n-i\n1M\n-n\n20\n-w\n5\n-c\n1\n-z\n1\n-G\n2\n-x\n1", "busbw-engine\nall_gather\n--help"}},
      {"sizes", [](std::string_view data) { parse_size(data); }, {"8", "4K", "128M", "8g", "1.5G", "1e3"}},
      {"variables",
       read_variables,
       {"NCCL_DEBUG=INFO\nMY_TOKEN=hf_abcdefABCDEF012345\nNCCL_X=https://u:p@h/x?sig=abc\nCUDA_VISIBLE_DEVICES=0,1\n"
        "SLURM_JWT=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        "NCCL_NET_PLUGIN=Bearer abcdef0123456789\nPATH=/usr/bin\nNCCL_=\n=x\nUCX_TLS=" + std::string(5000, 'A')}},
      {"random words",
       [](std::string_view data) {
         hide_random_words(data);
         is_long_hexadecimal(data);
       },
       {"aK93jd81LsPq02xZ7vB5 word /usr/lib/libnccl.so.2.28.9 _ZN5busbw4workEv", "0123456789abcdef0123456789abcdef"}},
      {"snapshots",
       read_snapshot,
       {to_line({.sm_clock_mhz = 1410, .throttle_reasons = 4, .power_watts = 71.5, .pcie_width = 16})}},
      {"lists of processors", [](std::string_view data) { cpus_of_list(std::string(data)); }, {"0-3,8,10-11\n", "0"}},
      {"builds of NCCL",
       [](std::string_view data) { nccl_build_of(scratch.with(data)); },
       {std::string("\x7f"
                    "ELF\2\1\1") +
        std::string(60, '\0') + "NCCL version 2.28.9+cuda13.0" + std::string(99, '\0')}},
      {"matrices", read_matrix, {"0 1024 2048\n1024 0 4K\n1 2 0\n", "# x\n0,1\n1,0\n"}},
      {"splits", [](std::string_view data) { split_colour(data, 3); }, {"%2", "AND 0x3", "/4", "0xf"}},
      {"what is shown",
       show,
       {"a\x1b[31mb\xc2\x9b"
        "2J\r\n\x7f"}},
  };
  return all;
}

class ForeignBytes : public ::testing::TestWithParam<Reader> {};

// Empty where the input was read, else the sentence. What else is thrown is an error of ours.
std::string sentence_about(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    return bounded_sentence(error.what());
  } catch (const WireError& error) {
    return bounded_sentence(error.what());
  }
  return "";
}

TEST_P(ForeignBytes, EndInAValueOrASentence) { run_campaign(GetParam(), sentence_about); }

INSTANTIATE_TEST_SUITE_P(Readers, ForeignBytes, ::testing::ValuesIn(readers()), name_of_reader);

}  // namespace
}  // namespace busbw
