// Writes the file of -J: nccl-tests' JSON, its schema version 3, but always valid JSON.
#pragma once

#include <string>

#include "engine/core/plan.h"
#include "engine/core/result.h"
#include "engine/record/environment.h"
#include "engine/record/whole_file.h"

namespace busbw {

// Used by one process, from one thread. After every call the file is complete JSON, and a reader or a killed run finds
// it so at any time between (a very long one: see WholeFile).
class NcclTestsJson {
 public:
  // Creates PATH, or PATH.0, PATH.1, ... where it exists. Throws Error(bad_arguments) where it cannot be created.
  explicit NcclTestsJson(const std::string& path);

  const std::string& path() const { return file_.path(); }  // of the file that was created

  void begin(const Plan& plan, const RunDescription& run, const Variables& environment);
  // A row of which neither placement was measured is left out, as nccl-tests has no word for it.
  void row(const Case& at, const CaseResult& out_of_place, const CaseResult& in_place);
  void end(const RunSummary& summary);

 private:
  WholeFile file_;
  bool has_rows_ = false;
  bool report_cpu_time_ = false;
};

}  // namespace busbw
