#include "brigade/comm/step_progress.h"

#include <algorithm>
#include <utility>

#include "brigade/base/strings.h"

namespace brigade::comm {

namespace {

/// How many failures are kept: those without a collective between them are known to no other
/// process.
constexpr std::size_t kMostFailures = 64;

std::string text_of(const CallPurpose& purpose) {
  switch (purpose.use) {
    case CallPurpose::Use::kOther:
      return "";
    case CallPurpose::Use::kGradients:
      return purpose.bucket == CallPurpose::kNone
                 ? base::str_cat(", for the gradients of optimizer ", purpose.optimizer)
                 : base::str_cat(", for the gradients of optimizer ", purpose.optimizer,
                                 ", bucket ", purpose.bucket);
    case CallPurpose::Use::kInput:
      return ", for the input";
    case CallPurpose::Use::kStop:
      return ", to agree on stopping";
  }
  return "";
}

}  // namespace

bool CallStamp::matches(const CallStamp& other) const {
  return run == other.run && step == other.step && updates == other.updates &&
         micro_batches == other.micro_batches && is_inside == other.is_inside &&
         purpose == other.purpose;
}

std::string describe(const CallStamp& stamp) {
  std::string text = base::str_cat(stamp.is_inside != 0 ? "in step " : "before step ", stamp.step,
                                   " (", stamp.updates, " updates made");
  if (stamp.micro_batches > 0)
    text += base::str_cat(", ", stamp.micro_batches, " micro-batches accumulated");
  if (stamp.failed_run != CallStamp::kNone) text += ", an earlier step failed";
  return text + ")" + text_of(stamp.purpose);
}

StepAbandoned::StepAbandoned(std::uint64_t step, std::vector<int> failed_ranks,
                             const std::string& message)
    : Error(ErrorCode::kAborted, message), step_(step), failed_ranks_(std::move(failed_ranks)) {}

StepMismatch::StepMismatch(Party own, Party other, const std::string& message)
    : Error(ErrorCode::kFailedPrecondition, message), own_(own), other_(other) {}

StepComparison compare_steps(const std::vector<CallStamp>& stamps) {
  using Verdict = StepComparison::Verdict;
  const std::uint64_t lowest = std::ranges::min_element(stamps, {}, &CallStamp::run)->run;
  const auto is_behind = [&](const CallStamp& stamp) { return stamp.run == lowest; };
  if (std::ranges::all_of(stamps, is_behind)) return {Verdict::kTogether, lowest};
  if (std::ranges::any_of(stamps, [&](const auto& stamp) { return stamp.failed_run < lowest; }))
    return {Verdict::kRepeat, lowest};
  const bool can_abandon = std::ranges::all_of(stamps, [&](const CallStamp& stamp) {
    return is_behind(stamp) ? stamp.is_inside != 0 : stamp.failed_run == lowest;
  });
  return {can_abandon ? Verdict::kAbandon : Verdict::kDiverged, lowest};
}

void StepProgress::move_to(std::uint64_t step) {
  for (const auto& other : others_) other->move_to(step);
  stamp_.step = step;
}

void StepProgress::begin_step() {
  for (const auto& other : others_) other->begin_step();
  stamp_.is_inside = 1;
}

void StepProgress::count_update() {
  for (const auto& other : others_) other->count_update();
  ++stamp_.updates;
}

void StepProgress::add_micro_batches(int micro_batches) {
  for (const auto& other : others_) other->add_micro_batches(micro_batches);
  stamp_.micro_batches += micro_batches;
}

void StepProgress::set_purpose(const CallPurpose& purpose) {
  for (const auto& other : others_) other->set_purpose(purpose);
  stamp_.purpose = purpose;
}

void StepProgress::fail_step(std::string reason) {
  for (const auto& other : others_) other->fail_step(reason);
  if (abandoned_) return;  // all other processes know
  failures_.push_back({stamp_.run, std::move(reason)});
  if (failures_.size() > kMostFailures) failures_.pop_front();
}

void StepProgress::end_step() {
  for (const auto& other : others_) other->end_step();
  stamp_.is_inside = 0;
  ++stamp_.run;
  ++stamp_.step;
  abandoned_.reset();
}

void StepProgress::skip_step(std::string reason) {
  fail_step(std::move(reason));
  end_step();
}

CallStamp StepProgress::stamp() const {
  CallStamp stamp = stamp_;
  if (!failures_.empty()) stamp.failed_run = failures_.front().run;
  return stamp;
}

std::string StepProgress::reason() const {
  return failures_.empty() ? "" : failures_.front().reason;
}

void StepProgress::forget_failures_before(std::uint64_t run) {
  while (!failures_.empty() && failures_.front().run < run) failures_.pop_front();
}

}  // namespace brigade::comm
