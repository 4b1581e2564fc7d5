// A recording in a folder of its own, as most tests of the recorder need one.
#pragma once

#include <cstdint>
#include <memory>

#include "library/record/recording.h"
#include "library/tests/record/recording_file.h"

namespace busbw::record::test {

class Recorded : public ::testing::Test {
 protected:
  // With one communicator.
  void make(std::uint64_t calls = 1024, std::uint32_t times_every = 0) {
    Settings settings;
    settings.folder = folder.path;
    settings.calls = calls;
    settings.times_every = times_every;
    recording = std::make_unique<Recording>(settings);
    row = recording->add();
  }
  File file() const { return File(folder.path); }

  Folder folder;
  std::unique_ptr<Recording> recording;
  Communicator* row = nullptr;
};

}  // namespace busbw::record::test
