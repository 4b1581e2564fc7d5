// The meeting file: private, whole, and nobody else's.
#include "engine/rendezvous/join/meeting_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/core/error.h"

namespace busbw {
namespace {

namespace fs = std::filesystem;

class MeetingFile : public ::testing::Test {
 protected:
  MeetingFile() {
    std::string pattern = fs::temp_directory_path() / "busbw-test-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~MeetingFile() override { fs::remove_all(folder_); }
  std::string folder_;
};

TEST_F(MeetingFile, LiesInAFolderOfThisUserAlone) {
  const std::string made = private_folder(folder_);
  EXPECT_EQ(made, folder_ + "/busbw");
  struct stat status{};
  ASSERT_EQ(stat(made.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_EQ(private_folder(folder_), made);
}

TEST_F(MeetingFile, IsRefusedWhereOthersMayEnterOrALinkLeadsElsewhere) {
  fs::create_directory(folder_ + "/busbw");
  chmod((folder_ + "/busbw").c_str(), 0755);
  EXPECT_THROW(private_folder(folder_), Error);
  fs::remove(folder_ + "/busbw");
  fs::create_directory(folder_ + "/elsewhere");
  chmod((folder_ + "/elsewhere").c_str(), 0700);
  fs::create_directory_symlink(folder_ + "/elsewhere", folder_ + "/busbw");
  EXPECT_THROW(private_folder(folder_), Error);
}

TEST_F(MeetingFile, IsReadAsItWasPublishedAndRemovedAtTheEnd) {
  const std::string path = meeting_path(folder_, "job 1");
  EXPECT_EQ(read_meeting(path), std::nullopt);
  {
    const PublishedMeeting published(path, {.port = 12345, .secret = std::string(64, 'f')});
    const auto meeting = read_meeting(path);
    ASSERT_TRUE(meeting);
    EXPECT_EQ(meeting->port, 12345);
    EXPECT_EQ(meeting->secret, std::string(64, 'f'));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(MeetingFile, OfALaterJobIsNotRemovedByAnEarlierOne) {
  const std::string path = meeting_path(folder_, "job");
  PublishedMeeting earlier(path, {.port = 1, .secret = "a"});
  const PublishedMeeting later(path, {.port = 2, .secret = "b"});
  earlier.remove();
  ASSERT_TRUE(read_meeting(path));
  EXPECT_EQ(read_meeting(path)->port, 2);
}

TEST_F(MeetingFile, IsIgnoredWhenItIsGarbageOrOpenToOthers) {
  const std::string path = folder_ + "/meeting";
  const auto write = [&](const std::string& text, mode_t mode) {
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
  };
  const std::string good = "busbw meeting 1\nport 80\nsecret abc\n";
  write(good, 0600);
  EXPECT_TRUE(read_meeting(path));
  write(good, 0644);
  EXPECT_FALSE(read_meeting(path));
  for (const char* text :
       {"", "busbw", "busbw meeting 1\nport 0\nsecret a\n", "busbw meeting 1\nport 70000\nsecret a\n",
        "busbw meeting 1\nport 80\n", "busbw meeting 2\nport 80\nsecret abc\n"}) {
    write(text, 0600);
    EXPECT_FALSE(read_meeting(path)) << text;
  }
}

TEST_F(MeetingFile, HasANameOfItsOwnForEachJob) {
  EXPECT_NE(meeting_path(folder_, "job 1"), meeting_path(folder_, "job 2"));
  EXPECT_EQ(meeting_path(folder_, "job 1"), meeting_path(folder_, "job 1"));
}

// What a killed process 0 leaves: the file without its lock.
TEST_F(MeetingFile, OfAProcessThatWasKilledIsRemovedAndThatOfALivingOneStays) {
  const std::string folder = private_folder(folder_);
  const std::string dead = meeting_path(folder, "dead"), living = meeting_path(folder, "living");
  const pid_t child = fork();
  if (child == 0) {
    const PublishedMeeting published(dead, {1234, "secret"});
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const PublishedMeeting published(living, {1235, "secret"});
  ASSERT_TRUE(read_meeting(dead));
  remove_if_abandoned(dead);
  remove_if_abandoned(living);
  EXPECT_FALSE(read_meeting(dead));
  EXPECT_TRUE(read_meeting(living));
}

}  // namespace
}  // namespace busbw
