// Everything that a run says: the table for people, the record, the -J file and the progress line.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/app/job.h"
#include "engine/app/table.h"
#include "engine/core/error.h"
#include "engine/record/nccl_tests_json.h"
#include "engine/record/record.h"

namespace busbw {

// Only the main thread of process 0 has one that speaks; the others' are silent.
class Reporter {
 public:
  Reporter(const Job& job, bool speaks);

  void header();
  void progress(const Case& the_case);
  // Out of place opens a row, in place closes it.
  void result(Case the_case, CaseResult result);
  // A combination of type, operation and root that cannot run here.
  void skip(Case the_case, const std::string& reason);
  // The case in hand came to nothing.
  void abandon(const Failure& failure);
  void footer();
  // The end of a run whose table nobody can read; empty where it was written.
  std::optional<Error> unwritten() const;

  // Before anything is timed: what this process does beside comes to its end.
  void settle();
  // A phase of the run has ended.
  void lap(const std::string& name);

  RunSummary& summary() { return summary_; }

 private:
  void clear_progress();
  void count(const CaseResult& result);
  void notes(const Case& the_case, const CaseResult& result);
  void write(const Case& the_case, const CaseResult& result);

  const Job& job_;
  const bool speaks_;
  Table table_;
  std::optional<RecordWriter> record_;
  std::unique_ptr<NcclTestsJson> json_;
  RunSummary summary_;
  Laps laps_;
  int next_index_ = 0;
  bool progress_shown_ = false;
  std::optional<Case> in_hand_;
  std::optional<std::pair<Case, CaseResult>> out_of_place_;
};

}  // namespace busbw
