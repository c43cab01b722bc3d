#include "brigade/ps/client/worker_steps.h"

#include <algorithm>

#include "brigade/base/error.h"

namespace brigade::ps {

BeginStepReply WorkerSteps::ask(ParameterService& coordinator, const std::string& membership,
                                std::chrono::milliseconds wait, ParameterService::Time deadline) {
  BeginStepRequest request{.finished = finished_};
  if (membership != contributed_as_) {
    for (std::size_t i = 0; i + 1 < contributions_.size(); ++i) {
      request.contribution = contributions_[i];
      coordinator.begin_step(membership, request, deadline);
    }
  }
  request.contribution =
      contributions_.empty() ? std::nullopt : std::optional(contributions_.back());
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  request.wait = std::clamp(left / 2, std::chrono::milliseconds(0), wait);
  BeginStepReply reply = coordinator.begin_step(membership, request, deadline);
  contributed_as_ = membership;
  return reply;
}

void WorkerSteps::learn(const coordination::StepDecision& decision) {
  if (!decision_ || decision.step > decision_->step) decision_ = decision;
}

bool WorkerSteps::take(const BeginStepReply& reply) {
  if (reply.decision) learn(*reply.decision);
  if (!reply.may_begin) return false;
  if (mode_ == UpdateMode::kSync) {
    if (!reply.token)
      throw Error(ErrorCode::kInternal,
                  "The coordinator lets a worker begin a synchronous step without a token.");
    if (!contributions_.empty() && contributions_.back().step != reply.token->step)
      contributions_.clear();
    token_ = reply.token;
  }
  may_push_ = true;
  return true;
}

void WorkerSteps::finish() {
  ++finished_;
  may_push_ = false;
  if (token_) contributions_.push_back(*token_);
  token_.reset();
}

}  // namespace brigade::ps
