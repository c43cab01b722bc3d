#include "brigade/distribute/pipeline/remote_gradient.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/step_clock.h"
#include "brigade/distribute/pipeline/pipeline_stages.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

RemoteGradient::RemoteGradient(std::shared_ptr<concurrency::StageSlots> slots,
                               std::shared_ptr<const StageChannels> channels,
                               std::shared_ptr<const StageVariables> variables,
                               std::vector<std::size_t> tied, const Messages& messages, int stage)
    : slots_(std::move(slots)),
      channels_(std::move(channels)),
      variables_(std::move(variables)),
      tied_(std::move(tied)),
      messages_(messages),
      stage_(stage) {}

torch::autograd::variable_list RemoteGradient::apply(torch::autograd::variable_list&& inputs) {
  if (messages_.sent) send(inputs.front());
  std::vector<at::Tensor> message;
  {
    const comm::PhaseScope waiting(current_step_clock(), comm::StepPhase::kWait);
    message = channels_->receive(*channels_->gradients_in, messages_.awaited);
  }
  enter_stage(*slots_, replica(), concurrency::PassDirection::kBackward, stage_);
  torch::autograd::variable_list gradients(num_outputs());
  if (!tied_.empty()) {
    check_state(!message.empty(), "The gradients of tied weights did not come.");
    const auto of_tied = unpack_gradients(message.back(), tied_, *variables_);
    std::ranges::copy(of_tied, gradients.begin() + 1);
    message.pop_back();
  }
  if (!message.empty()) gradients.front() = std::move(message.front());
  return gradients;
}

void RemoteGradient::send(const at::Tensor& gradient) const {
  slots_->pause(replica());
  std::vector<at::Tensor> message;
  if (gradient.defined()) message.push_back(gradient);
  channels_->gradients_out->send(*messages_.sent, std::move(message));
}

}  // namespace brigade::distribute
