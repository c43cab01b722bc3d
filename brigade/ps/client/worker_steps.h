#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/coordination/step_decider.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// A worker's side of the order of steps: which step it may push, how many it has finished, and
/// what it has to report to the coordinator.
///
/// Thread-safety: one thread.
class WorkerSteps {
 public:
  using Token = coordination::StepDecider::Token;

  explicit WorkerSteps(UpdateMode mode) : mode_(mode) {}

  /// Whether it has permission for a step that it has not pushed yet. With kAsync always.
  bool may_push() const { return mode_ == UpdateMode::kAsync || may_push_; }
  /// kSync: of that step.
  const std::optional<Token>& token() const { return token_; }
  /// kSync: the latest decision that it knows.
  const std::optional<coordination::StepDecision>& decision() const { return decision_; }
  /// A server has applied `decision`.
  void learn(const coordination::StepDecision& decision);

  /// Asks `coordinator`, as the holder of the membership `membership`, for the next step. All
  /// requests may be made again. Waits for permission until half of the time to `deadline` has
  /// passed, and for `wait` at most.
  BeginStepReply ask(ParameterService& coordinator, const std::string& membership,
                     std::chrono::milliseconds wait, ParameterService::Time deadline);
  /// The reply to `ask`. Returns whether it is permission.
  bool take(const BeginStepReply& reply);
  /// All servers have answered the push of the step.
  void finish();

 private:
  const UpdateMode mode_;
  std::int64_t finished_ = 0;
  bool may_push_ = false;
  std::optional<Token> token_;
  std::optional<coordination::StepDecision> decision_;
  // kSync: the gradients of the step in progress that all servers have. A coordinator that was
  // restarted does not know them; one that gave this membership got them under it.
  std::vector<Token> contributions_;
  std::string contributed_as_;
};

}  // namespace brigade::ps
