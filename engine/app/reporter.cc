// Sends each fact to every place that wants it.
#include "engine/app/reporter.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/app/options.h"
#include "engine/core/visible.h"
#include "engine/record/time.h"

namespace busbw {

Reporter::Reporter(const Job& job, bool speaks)
    : job_(job), speaks_(speaks), table_(stdout, job.plan, *job.collective), laps_(job.laps) {
  summary_.required_busbw = required_busbw();
  if (!speaks_) return;
  if (!job.plan.record_path.empty()) record_.emplace(job.plan.record_path, job.description.run_id);
  if (!job.plan.json_path.empty()) json_ = std::make_unique<NcclTestsJson>(job.plan.json_path);
}

void Reporter::header() {
  if (!speaks_) return;
  for (const std::string& warning : job_.plan.warnings)
    std::fprintf(stderr, "busbw: %s\n", bounded_sentence(warning).c_str());
  if (record_) record_->write_run(job_.plan, job_.description);
  if (json_)
    json_->begin(job_.plan, job_.description,
                 job_.plan.full_environment ? full_environment(environ) : job_.description.environment);
  table_.header(job_.description, {.json = json_ ? json_->path() : "", .record = job_.plan.record_path});
}

void Reporter::clear_progress() {
  if (!progress_shown_) return;
  std::fputs("\r\033[K", stderr);
  progress_shown_ = false;
}

void Reporter::progress(const Case& the_case) {
  in_hand_ = the_case;
  // A file or a pipe gets no line that is meant to vanish.
  if (!speaks_ || !job_.plan.progress || isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[Kmeasuring %s %s %s of %s, %s ...", job_.plan.collective.c_str(),
               std::string(name(the_case.type)).c_str(), readable(the_case.bytes).c_str(),
               readable(job_.plan.sizes.last).c_str(), the_case.in_place ? "in place" : "out of place");
  progress_shown_ = true;
}

void Reporter::count(const CaseResult& result) {
  summary_.busbw_sum += result.busbw;
  ++summary_.busbw_count;
  if (result.wrong.value_or(0) > 0) ++summary_.out_of_bounds;
  if (result.context && !result.context->warnings.empty())
    summary_.cases_with_warnings += static_cast<std::size_t>(result.context->cases);
}

void Reporter::write(const Case& the_case, const CaseResult& result) {
  if (record_) record_->write_case(job_.plan.collective, job_.description.ranks_in_group, job_.plan, the_case, result);
  ++summary_.cases;
}

void Reporter::result(Case the_case, CaseResult result) {
  in_hand_.reset();
  result.timestamp = rfc3339();
  count(result);
  if (!speaks_) return;
  the_case.index = next_index_++;
  clear_progress();
  write(the_case, result);
  if (!the_case.in_place) {
    // Rows wait for their second half, so that a progress line never lands inside one.
    out_of_place_.emplace(the_case, result);
    return;
  }
  table_.begin_row(the_case);
  table_.cell(out_of_place_->second, false);
  table_.cell(result, true);
  table_.end_row();
  notes(the_case, out_of_place_->second);
  notes(the_case, result);
  if (json_) json_->row(the_case, out_of_place_->second, result);
  out_of_place_.reset();
  if (const std::optional<Error> problem = unwritten()) throw *problem;
}

std::optional<Error> Reporter::unwritten() const {
  const int problem = table_.problem();
  if (problem == 0) return std::nullopt;
  if (problem == EPIPE) return Error(ExitCode::interrupted, "nobody reads the table any more, and the run ends");
  return Error(ExitCode::internal, std::string("the table cannot be written to stdout: ") + std::strerror(problem) +
                                       (record_ ? "; what was measured before is in the record" : ""));
}

void Reporter::notes(const Case& the_case, const CaseResult& result) {
  if (result.outcome != Outcome::measured) return;
  for (const std::string& note : job_.collective->notes(
           the_case.requested, the_case.type, job_.description.ranks_in_group, Seconds(result.time_us * 1e-6)))
    table_.skip_line(note);
}

void Reporter::skip(Case the_case, const std::string& reason) {
  if (!speaks_) return;
  the_case.index = next_index_++;
  write(the_case, {.outcome = Outcome::skipped, .reason = reason});
  table_.skip_line(reason);
}

void Reporter::abandon(const Failure& failure) {
  summary_.outcome = failure.code == ExitCode::timeout ? Outcome::timed_out : Outcome::failed;
  summary_.interrupted = failure.code == ExitCode::interrupted;
  summary_.reason = failure.sentence;
  summary_.exit_code = exit_status(failure.code);
  if (!speaks_) return;
  clear_progress();
  if (out_of_place_) {
    table_.begin_row(out_of_place_->first);
    table_.cell(out_of_place_->second, false);
    table_.cell({.outcome = Outcome::failed, .reason = failure.sentence}, true);
    table_.end_row();
    out_of_place_.reset();
  }
  if (in_hand_ && !summary_.interrupted) {
    in_hand_->index = next_index_++;
    write(*in_hand_, {.outcome = summary_.outcome, .reason = failure.sentence});
    in_hand_.reset();
  }
}

void Reporter::settle() {
  if (record_) record_->settle();
}

void Reporter::lap(const std::string& name) {
  if (speaks_) laps_.end(name);
}

void Reporter::footer() {
  if (!speaks_) return;
  summary_.phases = laps_.list();
  summary_.strangers = job_.rendezvous->strangers();
  table_.footer(summary_);
  if (record_) record_->write_end(summary_);
  if (json_) json_->end(summary_);
  if (const std::string refused = sentence_of(summary_.strangers); !refused.empty())
    std::fprintf(stderr, "busbw: %s\n", refused.c_str());
}

}  // namespace busbw
