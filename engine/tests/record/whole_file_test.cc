// Readers, full disks and kills between and within the writes of a growing file.
#include "engine/record/whole_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "engine/core/error.h"
#include "engine/tests/record/files.h"

namespace busbw {
namespace {

const std::string row(100, 'r');
const std::string long_row(20'000, 'R');  // several pages

// While it lives, files of this process may not grow beyond this, and a write that would is cut there, as on a full
// disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lowered{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &lowered);
    handler_ = signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  sighandler_t handler_ = nullptr;
};

class WholeFileInAFolder : public testing::Test {
 protected:
  OutputFile create() const {
    return OutputFile(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640), path_);
  }
  std::string text() const { return text_of(path_); }
  std::ptrdiff_t files() const {
    using Entries = std::filesystem::directory_iterator;
    return std::distance(Entries(std::filesystem::path(path_).parent_path()), Entries());
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("out.json");
};

TEST_F(WholeFileInAFolder, IsNeverTouchedWhileAReaderHasItOpen) {
  WholeFile file(create());
  file.extend("{", "}");
  std::string before = "{}";
  for (int count = 0; count < 5; ++count) {
    std::ifstream reader(path_, std::ios::binary);
    char first = 0;
    reader.get(first);
    file.extend(row, "]}");
    std::string rest{std::istreambuf_iterator<char>(reader), {}};
    EXPECT_EQ(first + rest, before);
    before = text();
    EXPECT_TRUE(before.ends_with(row + "]}"));
  }
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileInAFolder, KeepsItsModeAndLeavesNothingBesideIt) {
  WholeFile file(create());
  file.extend("{", "}");
  EXPECT_EQ(::chmod(path_.c_str(), 0604), 0);
  file.extend(row, "}");
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0604u);
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileInAFolder, GrowsInPlaceBeyondItsLimit) {
  WholeFile file(create(), 250);
  file.extend("{", "]}");
  std::string expected = "{";
  for (int count = 0; count < 5; ++count) {
    file.extend(row, "]}");
    expected += row;
    EXPECT_EQ(text(), expected + "]}");
  }
  struct stat before{}, after{};
  ASSERT_EQ(::stat(path_.c_str(), &before), 0);
  file.extend("end", "\n");
  ASSERT_EQ(::stat(path_.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "a long file was written again as a whole";
  EXPECT_EQ(text(), expected + "end\n");
  EXPECT_EQ(files(), 1);
}

// In either way of growing.
class WholeFileAtItsEnd : public WholeFileInAFolder, public testing::WithParamInterface<std::size_t> {};

TEST_P(WholeFileAtItsEnd, StaysWholeWhereTheDiskIsFullAndGoesOnAfterwards) {
  WholeFile file(create(), GetParam());
  file.extend("{" + row, "]}");
  {
    const FileSizeLimit full(4096);
    try {
      file.extend(long_row, "]}");
      FAIL() << "nobody noticed that the disk is full";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::internal);
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(text(), "{" + row + "]}");
  EXPECT_EQ(files(), 1);
  file.extend(row, "}");
  EXPECT_EQ(text(), "{" + row + row + "}");
}

INSTANTIATE_TEST_SUITE_P(ReplacedAndInPlace, WholeFileAtItsEnd,
                         testing::Values(WholeFile::most_replaced_by_default, 0));

TEST_F(WholeFileInAFolder, IsWholeAfterAKillInTheMiddleOfAWrite) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    WholeFile file(create());
    file.extend("{" + row, "]}");
    // SIGXFSZ ends the process at the second page: after a part was written, as SIGKILL may.
    const rlimit lowered{.rlim_cur = 4096, .rlim_max = 4096};
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_FSIZE, &lowered);
    signal(SIGXFSZ, SIG_DFL);
    file.extend(long_row, "]}");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(text(), "{" + row + "]}");
}

TEST_F(WholeFileInAFolder, SaysWhatIsWrongWhereItsFolderIsGone) {
  WholeFile file(create());
  file.extend("{", "}");
  std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
  EXPECT_THROW(file.extend(row, "}"), Error);
}

}  // namespace
}  // namespace busbw
