#include "brigade/distribute/worker_stages.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/comm/step_clock.h"
#include "brigade/device/random_scope.h"
#include "brigade/distribute/pipeline_stages.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

using concurrency::PassDirection;
using concurrency::StageSlots;

/// Of the same kind, without examples. A copy: layers may change it in place.
at::Tensor without_examples(const at::Tensor& x) {
  const at::Tensor detached = x.detach();
  return (x.dim() == 0 ? detached : detached.narrow(0, 0, 0)).clone();
}

/// What accompanies a tensor: whether its sender wants the gradient by it, and the state of the
/// micro-batch's random numbers, if some were drawn.
at::Tensor companion_of(const at::Tensor& x) {
  const at::Tensor flag = at::full({1}, x.requires_grad() ? 1 : 0, at::kByte);
  const device::ReplicaGenerator* generator = device::kGeneratorSlot.get();
  const at::Tensor state = generator ? generator->state() : at::Tensor();
  return state.defined() ? at::cat({flag, state}) : flag;
}

bool wants_gradient(const at::Tensor& companion) {
  return companion[0].item<int>() != 0;
}

void continue_random_numbers(const at::Tensor& companion) {
  device::ReplicaGenerator* generator = device::kGeneratorSlot.get();
  if (generator == nullptr) return;
  const std::int64_t bytes = companion.numel() - 1;
  generator->set_state(bytes > 0 ? companion.narrow(0, 1, bytes).clone() : at::Tensor());
}

/// Whether both are batches of the same examples, whatever their number.
bool are_alike(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() != b.dim() || a.scalar_type() != b.scalar_type()) return false;
  for (std::int64_t d = 1; d < a.dim(); ++d) {
    if (a.size(d) != b.size(d)) return false;
  }
  return true;
}

/// Passes the gradient by what was received on to the leaf by which it is asked for.
class ReceivedActivation final : public torch::autograd::Node {
 public:
  std::string name() const override { return "ReceivedActivation"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

}  // namespace

/// Where a micro-batch comes back from the next process: waits for the gradient by what was sent
/// there, and for the pass on the last own stage. On CPUs it runs on the micro-batch's thread.
class WorkerStages::RemoteGradient final : public torch::autograd::Node {
 public:
  RemoteGradient(std::shared_ptr<StageSlots> slots, std::shared_ptr<const StageChannels> channels,
                 comm::MessageKey key, int stage)
      : slots_(std::move(slots)), channels_(std::move(channels)), key_(key), stage_(stage) {}

  std::string name() const override { return "RemoteGradient"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& /*of_result*/) override {
    std::vector<at::Tensor> gradient;
    {
      const comm::PhaseScope waiting(current_step_clock(), comm::StepPhase::kWait);
      gradient = channels_->receive(*channels_->gradients_in, key_);
    }
    enter_stage(*slots_, key_.number, PassDirection::kBackward, stage_);
    return {gradient.empty() ? at::Tensor() : std::move(gradient.front())};
  }

 private:
  const std::shared_ptr<StageSlots> slots_;
  const std::shared_ptr<const StageChannels> channels_;
  const comm::MessageKey key_;
  const int stage_;
};

WorkerStages::WorkerStages(std::shared_ptr<StageSlots> slots, std::vector<std::string> cut,
                           StageBlock own, int micro_batches,
                           std::shared_ptr<const StageChannels> channels, PipelineWorkers workers)
    : slots_(std::move(slots)),
      cut_(std::move(cut), micro_batches),
      own_(own),
      channels_(std::move(channels)),
      workers_(std::move(workers)),
      worker_(base::str_cat(workers_.all->membership->self())),
      passes_(static_cast<std::size_t>(micro_batches)) {}

// A process that has failed says so in its next collective. Others may still be in the failed step,
// in a collective, with all messages that they need: they must hear it before anybody waits for
// messages of the next step from them.
void WorkerStages::start() {
  workers_.all->communicator->barrier();
  step_ = static_cast<std::int64_t>(workers_.all->communicator->progress().stamp().run);
  passes_.assign(passes_.size(), Pass());
  to_end_ = static_cast<int>(passes_.size());
  has_failed_ = false;
  channels_->begin_step(step_);
  slots_->start();
}

void WorkerStages::end(int task) {
  slots_->end(task);
  if (--to_end_ == 0 && !has_failed_) channels_->end_step(step_, std::nullopt);
}

void WorkerStages::abort(const std::string& reason) {
  slots_->abort(reason);
  if (has_failed_.exchange(true)) return;
  channels_->abort(base::str_cat("The pipeline's step was given up: ", reason));
  channels_->end_step(step_,
                      base::str_cat("The pipeline's step failed in ", worker_, ": ", reason));
}

at::Tensor WorkerStages::begin_layer(int replica, std::string_view name, const at::Tensor& x) {
  if (cut_.is_in_backward(replica)) return x;
  Pass& pass = pass_of(replica);
  const auto stage = cut_.begin_layer(replica, name);
  if (pass.where == Where::kNotBegun) return begin_model(pass, x);
  if (pass.where == Where::kEnded) {
    throw Error(ErrorCode::kUnimplemented,
                base::str_cat("The model passes through its stages a second time in a step, at ",
                              "layer ", base::quoted(name),
                              ": pipelines over several workers make one pass a step. Use one "
                              "worker."));
  }
  if (!stage || *stage < own_.first || *stage > own_.last + 1) return x;
  if (*stage == own_.first) return receive_activation(replica, name, x);
  if (*stage == own_.last + 1) return send_activation(replica, x);
  return move_to_stage(slots_, replica, *stage, x);
}

at::Tensor WorkerStages::begin_model(Pass& pass, const at::Tensor& x) const {
  if (own_.first == 0) {
    pass.where = Where::kInside;
    return x;
  }
  pass.where = Where::kBefore;
  return without_examples(x);
}

at::Tensor WorkerStages::receive(int replica, comm::TensorChannel& channel, bool& wants) {
  slots_->pause(replica);
  std::vector<at::Tensor> message;
  {
    const comm::PhaseScope waiting(current_step_clock(), comm::StepPhase::kWait);
    message = channels_->receive(channel, key_of(replica));
  }
  wants = at::GradMode::is_enabled() && wants_gradient(message.at(1));
  continue_random_numbers(message.at(1));
  return message.front();
}

at::Tensor WorkerStages::receive_activation(int replica, std::string_view layer,
                                            const at::Tensor& like) {
  Pass& pass = pass_of(replica);
  bool wants = false;
  at::Tensor x = receive(replica, *channels_->activations_in, wants);
  if (!are_alike(x, like)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        base::str_cat("The layer ", base::quoted(layer), " begins with ", comm::shape_of(x),
                      " in the worker before, and with ", comm::shape_of(like), " in ", worker_,
                      ", of which only the first size may differ: make the same model in "
                      "every worker."));
  }
  enter_stage(*slots_, replica, PassDirection::kForward, own_.first);
  if (own_.last == cut_.last_stage() && !at::GradMode::is_enabled()) slots_->finish(replica);
  pass.where = Where::kInside;
  if (!wants) return x;
  pass.received = x.requires_grad_();
  // The model may change its input in place, which a leaf of the graph does not allow.
  at::Tensor moved = x.detach();
  const auto node = std::make_shared<ReceivedActivation>();
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::set_history(moved, node);
  return moved;
}

at::Tensor WorkerStages::send_activation(int replica, const at::Tensor& x) {
  Pass& pass = pass_of(replica);
  channels_->activations_out->send(key_of(replica), {x, companion_of(x)});
  if (at::GradMode::is_enabled()) {
    pass.sent = x;
    slots_->pause(replica);
  } else {
    slots_->finish(replica);
    slots_->pause(replica);
  }
  pass.where = Where::kAfter;
  return without_examples(x);
}

at::Tensor WorkerStages::end_layers(int replica, const at::Tensor& result) {
  if (cut_.is_in_backward(replica)) return result;
  cut_.check_is_complete(replica);
  Pass& pass = pass_of(replica);
  pass.where = Where::kEnded;
  if (own_.last < cut_.last_stage()) return receive_result(replica);
  // A copy: the program may change the result in place.
  channels_->results->send(key_of(replica), {result.detach().clone(), companion_of(result)});
  return result;
}

at::Tensor WorkerStages::receive_result(int replica) {
  Pass& pass = pass_of(replica);
  bool wants = false;
  at::Tensor result = receive(replica, *channels_->results, wants);
  if (!wants) return result;
  if (!pass.sent.requires_grad()) return result.requires_grad_();  // nothing of it is trained here
  const auto node = std::make_shared<RemoteGradient>(slots_, channels_, key_of(replica), own_.last);
  node->set_next_edges(torch::autograd::collect_next_edges(pass.sent));
  torch::autograd::set_history(result, node);
  pass.sent.reset();
  return result;
}

void WorkerStages::end_layers_with_more(int /*replica*/) {
  throw Error(ErrorCode::kUnimplemented,
              "The model returns more than one tensor: in a pipeline over several workers its "
              "result is one tensor, which the last stage sends to all. Use one worker.");
}

void WorkerStages::begin_backward(int replica) {
  cut_.check_is_complete(replica);
  Pass& pass = pass_of(replica);
  check_state(pass.where == Where::kEnded,
              "A loss was minimized, and the model's forward pass has not ended: call the model by "
              "its handle, model(x), which exchanges its result with the other workers.");
  if (pass.has_backward) {
    throw Error(ErrorCode::kUnimplemented,
                "A micro-batch goes backward a second time in a step: pipelines over several "
                "workers make one backward pass a step. Use one optimizer, or one worker.");
  }
  pass.has_backward = true;
  cut_.begin_backward(replica);
  if (own_.last == cut_.last_stage())
    enter_stage(*slots_, replica, PassDirection::kBackward, own_.last);
}

std::vector<at::Tensor> WorkerStages::backward_inputs(int replica) {
  const Pass& pass = pass_of(replica);
  return pass.received.defined() ? std::vector<at::Tensor>{pass.received}
                                 : std::vector<at::Tensor>();
}

void WorkerStages::take_gradients(int replica, std::vector<at::Tensor> gradients) {
  if (gradients.empty()) return;
  if (!gradients.front().defined()) gradients.clear();
  pass_of(replica).received.reset();
  channels_->gradients_out->send(key_of(replica), std::move(gradients));
}

void WorkerStages::end_backward(int replica) noexcept {
  cut_.end_backward(replica);
  slots_->finish(replica);
}

}  // namespace brigade::distribute
