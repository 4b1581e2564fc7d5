// Writes a record as JSON Lines, schema version 1: one line for the run, one for each case as it is measured, one for
// the end.
#pragma once

#include <future>
#include <string>

#include "engine/core/plan.h"
#include "engine/core/result.h"
#include "engine/record/file.h"

namespace busbw {

class JsonText;

// Used by one process, from one thread. Every line is one write(2), so that what was measured survives a killed run.
class RecordWriter {
 public:
  // Makes the folders above `path`. Throws Error(bad_arguments) where it cannot be written or already holds something:
  // a record is never overwritten.
  RecordWriter(const std::string& path, std::string run_id);

  const std::string& path() const { return file_.path(); }

  void write_run(const Plan& plan, const RunDescription& run);
  // `ranks` is the number of ranks of one communicator.
  void write_case(const std::string& collective, int ranks, const Plan& plan, const Case& at, const CaseResult& result);
  void write_end(const RunSummary& summary);

  // Waits for what runs beside, so that it disturbs no measurement: a large library is hashed while the run starts.
  void settle() const;

 private:
  void write_line(const JsonText& json);
  // The hash of a small library; that of a large one is begun, for the end line.
  std::string hash_now_or_later(const std::string& path);

  OutputFile file_;
  std::string run_id_;
  std::shared_future<std::string> large_hash_;  // invalid: the run line has the hash
};

}  // namespace busbw
