// The table for people, line by line in the layout of nccl-tests, because scripts read it by column and by word.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "engine/collectives/collective.h"
#include "engine/core/plan.h"
#include "engine/core/result.h"

namespace busbw {

// Files that the run writes, as the header mentions them; empty: none.
struct OutputPaths {
  std::string json;
  std::string record;
};

// A number in so many columns: two decimals where they fit, else one, else none, else scientific.
std::string fixed_width(double value, int width);
// Bytes in B, KB, MB or GB, powers of 1024.
std::string readable(Bytes bytes);

// Prints on one process only. Each line is flushed as it is complete; what cannot be written any more is told by
// `problem`, for the caller to end on.
class Table {
 public:
  Table(std::FILE* out, const Plan& plan, const Collective& collective)
      : out_(out), plan_(plan), collective_(collective) {}

  void header(const RunDescription& run, const OutputPaths& paths = {});

  // A row: begin_row prints size to root, each cell one placement, end_row the end of the line. A case that was not
  // measured shows N/A in each column, and its reason in a line below.
  void begin_row(const Case& row);
  void cell(const CaseResult& result, bool last);
  void end_row();

  // A line of its own that no reader of rows takes for one.
  void skip_line(std::string_view sentence);

  void footer(const RunSummary& summary);

  // The errno of the first line that could not be written; 0: all could.
  int problem() const { return problem_; }

 private:
  void line(const std::string& text);
  void options_line();
  void mode_lines();
  void column_titles();
  void context(const std::string& placement, const CaseContext& context);
  void statistics(const CaseResult& result);

  std::FILE* out_;
  const Plan& plan_;
  const Collective& collective_;
  int problem_ = 0;
  int cells_ = 0;                     // of the row that is being written
  std::vector<std::string> warned_;   // of the last reading: said once, until it changes
  std::string algorithm_;             // of the cell before
  std::vector<std::string> remarks_;  // printed below the row that is being written
};

}  // namespace busbw
