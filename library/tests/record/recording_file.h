// Reads the one recording in a folder by its layout, as another program would.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "library/record/layout.h"

namespace busbw::record::test {

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "busbw-record-XXXXXX").string();
    if (::mkdtemp(pattern.data())) path = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

class File {
 public:
  explicit File(const std::string& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream file(entry.path(), std::ios::binary);
      bytes_.assign(std::istreambuf_iterator<char>(file), {});
    }
    EXPECT_GE(bytes_.size(), header_bytes) << "there is no recording";
    bytes_.resize(std::max(bytes_.size(), header_bytes));
  }
  const Header& header() const { return at<Header>(0); }
  const Call& call(std::uint64_t number) const {
    return at<Call>(header().calls_at + ((number - 1) & (header().call_capacity - 1)) * sizeof(Call));
  }
  const Time& time(std::uint64_t place) const { return at<Time>(header().times_at + place * sizeof(Time)); }
  const Communicator& row(std::uint64_t place) const {
    return at<Communicator>(header().communicators_at + place * sizeof(Communicator));
  }

  static std::uint64_t count(const Call& call) { return call.what & 0xffffffffffff; }
  static bool launched(const Call& call) { return call.how.load() & how_launched; }
  static int flags(const Call& call) { return int(call.how.load() >> 13 & 7); }
  static Kind kind(const Call& call) { return Kind(call.how.load() & 0x1f); }

 private:
  template <class What>
  const What& at(std::uint64_t place) const {
    static const std::vector<char> zeros(4096);
    if (place + sizeof(What) > bytes_.size()) return *reinterpret_cast<const What*>(zeros.data());
    return *reinterpret_cast<const What*>(bytes_.data() + place);
  }
  std::vector<char> bytes_;
};

}  // namespace busbw::record::test
