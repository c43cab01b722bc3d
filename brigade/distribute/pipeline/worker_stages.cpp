#include "brigade/distribute/pipeline/worker_stages.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/step_clock.h"
#include "brigade/distribute/pipeline/pipeline_stages.h"
#include "brigade/distribute/pipeline/remote_gradient.h"
#include "brigade/distribute/pipeline/worker_stage_checks.h"
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

/// What goes with this tensor, if its gradient is wanted.
std::optional<VariableUse> use_for(const at::Tensor& x, const VariableUse& use) {
  return x.requires_grad() ? std::optional(use) : std::nullopt;
}

bool wants_gradient(const StageMessage& message) {
  return at::GradMode::is_enabled() && message.use.has_value();
}

}  // namespace

WorkerStages::WorkerStages(std::shared_ptr<StageSlots> slots, StageStarts starts, LocalStages local,
                           std::shared_ptr<StageVariables> variables, int micro_batches,
                           std::shared_ptr<const StageChannels> channels, PipelineWorkers workers)
    : slots_(std::move(slots)),
      cut_(std::move(starts), micro_batches),
      local_(local),
      variables_(std::move(variables)),
      channels_(std::move(channels)),
      workers_(std::move(workers)),
      worker_(base::str_cat(workers_.all->membership->self())),
      passes_(static_cast<std::size_t>(micro_batches)) {}

// A process that has failed reports it in its next collective. Others may still be in the failed
// step, in a collective, with all messages that they need. The barrier makes them learn of the
// failure before any process waits for their messages of the next step.
void WorkerStages::start() {
  workers_.all->communicator->barrier();
  step_ = static_cast<std::int64_t>(workers_.all->communicator->progress().stamp().run);
  variables_->begin_step();
  cut_.begin_step();
  Pass pass;
  pass.used = variables_->none();
  pass.before = {.used = pass.used, .tied = pass.used};
  pass.in_all = pass.before;
  passes_.assign(passes_.size(), pass);
  running_tasks_ = static_cast<int>(passes_.size());
  has_failed_ = false;
  channels_->begin_step(step_);
  slots_->start();
}

void WorkerStages::end(int task) {
  slots_->end(task);
  if (--running_tasks_ > 0) return;
  variables_->end_step();
  if (!has_failed_) channels_->end_step(step_, std::nullopt);
}

void WorkerStages::abort(const std::string& reason) {
  slots_->abort(reason);
  if (has_failed_.exchange(true)) return;
  if (workers_.all->membership->lost()) *channels_->has_lost_member = true;
  channels_->abort(base::str_cat("The pipeline's step was given up: ", reason));
  channels_->end_step(step_,
                      base::str_cat("The pipeline's step failed in ", worker_, ": ", reason));
}

at::Tensor WorkerStages::begin_layer(int replica, std::string_view name, const at::Tensor& x) {
  if (cut_.is_in_backward(replica)) return x;
  return continue_model(replica, name, cut_.begin_layer(replica, name), x);
}

at::Tensor WorkerStages::place_layer(int replica, std::string_view name, const std::string& device,
                                     const at::Tensor& x) {
  if (cut_.is_in_backward(replica) || !cut_.is_of_model()) {
    cut_.place_layer(replica, name, device);
    return x;
  }
  return continue_model(replica, name, cut_.place_layer(replica, name, device), x);
}

at::Tensor WorkerStages::continue_model(int replica, std::string_view layer,
                                        std::optional<int> stage, const at::Tensor& given) {
  Pass& pass = pass_of(replica);
  at::Tensor x = given;
  if (pass.position == Position::kNotBegun) x = begin_model(pass, given);
  if (pass.position == Position::kEnded) refuse_second_pass(layer);
  if (!stage) {
    const bool is_boundary = pass.boundary_input.defined() && x.is_same(pass.boundary_input);
    return is_boundary ? pass.boundary_output : x;
  }
  const bool is_next_local = local_.has(*stage);
  const bool is_previous_local = local_.has(*stage - 1);
  if (!is_next_local && !is_previous_local) return x;
  at::Tensor moved;
  if (!is_previous_local) {
    moved = receive_activation(replica, layer, *stage, x);
  } else if (!is_next_local) {
    moved = send_activation(replica, *stage, x);
  } else {
    moved = move_to_stage(slots_, replica, *stage, x);
  }
  pass.boundary_input = x;
  pass.boundary_output = moved;
  return moved;
}

at::Tensor WorkerStages::begin_model(Pass& pass, const at::Tensor& x) const {
  if (local_.first() == 0) {
    pass.position = Position::kInside;
    return x;
  }
  pass.position = Position::kBefore;
  return without_examples(x);
}

StageMessage WorkerStages::receive(int replica, comm::TensorChannel& channel,
                                   const comm::MessageKey& key) {
  slots_->pause(replica);
  std::vector<at::Tensor> tensors;
  {
    const comm::PhaseScope waiting(current_step_clock(), comm::StepPhase::kWait);
    tensors = channels_->receive(channel, key);
  }
  return message_from_tensors(tensors, variables_->count());
}

at::Tensor WorkerStages::receive_activation(int replica, std::string_view layer, int stage,
                                            const at::Tensor& local) {
  Pass& pass = pass_of(replica);
  const StageMessage message = receive(replica, *channels_->activations_in, key_of(replica, stage));
  if (message.use) pass.before = *message.use;
  check_same_layer(message.tensor, local, layer, worker_);
  enter_stage(*slots_, replica, PassDirection::kForward, stage);
  const bool is_last_chunk = local_.chunk_of(stage) == local_.chunk_of(local_.last());
  if (local_.last() == cut_.last_stage() && is_last_chunk && !at::GradMode::is_enabled())
    slots_->finish(replica);
  pass.position = Position::kInside;
  return wants_gradient(message) ? continue_received(replica, stage, message.tensor)
                                 : message.tensor;
}

at::Tensor WorkerStages::continue_received(int replica, int stage, const at::Tensor& received) {
  Pass& pass = pass_of(replica);
  at::Tensor moved = received.detach();
  std::shared_ptr<torch::autograd::Node> node;
  if (pass.sent.defined() && pass.sent.requires_grad()) {
    node = std::make_shared<RemoteGradient>(
        slots_, channels_, variables_, std::vector<std::size_t>(),
        RemoteGradient::Messages{.awaited = key_of(replica, pass.sent_stage),
                                 .sent = key_of(replica, stage)},
        pass.sent_stage - 1);
    pass.leaves.push_back(at::zeros({1}).requires_grad_());
    auto edges = torch::autograd::collect_next_edges(pass.sent, pass.leaves.back());
    node->set_next_edges(std::move(edges));
    pass.sent.reset();
    pass.entry = node.get();
  } else {
    if (pass.received.defined()) refuse_detached(worker_, stage);
    pass.received = received;
    pass.received.requires_grad_();
    pass.received_stage = stage;
    node = std::make_shared<ReceivedActivation>();
    node->set_next_edges(torch::autograd::collect_next_edges(pass.received));
  }
  torch::autograd::set_history(moved, node);
  return moved;
}

at::Tensor WorkerStages::send_activation(int replica, int stage, const at::Tensor& x) {
  Pass& pass = pass_of(replica);
  const VariableUse use = pass.before.with(add_used(pass, x));
  channels_->activations_out->send(key_of(replica, stage),
                                   to_tensors({.tensor = x, .use = use_for(x, use)}));
  if (at::GradMode::is_enabled()) {
    pass.sent = x;
    pass.sent_stage = stage;
  } else if (stage > local_.last()) {
    slots_->finish(replica);
  }
  slots_->pause(replica);
  pass.position = Position::kAfter;
  return without_examples(x);
}

at::Tensor WorkerStages::end_layers(int replica, const at::Tensor& result) {
  if (cut_.is_in_backward(replica)) return result;
  cut_.check_is_complete(replica);
  Pass& pass = pass_of(replica);
  pass.position = Position::kEnded;
  pass.boundary_input.reset();
  pass.boundary_output.reset();
  if (local_.last() < cut_.last_stage()) {
    pass.result = receive_result(replica);
    return pass.result;
  }
  pass.in_all = pass.before.with(add_used(pass, result));
  pass.result = result;
  // A copy: the program may change the result in place.
  channels_->results->send(key_of(replica, 0), to_tensors({.tensor = result.detach().clone(),
                                                           .use = use_for(result, pass.in_all)}));
  return result;
}

at::Tensor WorkerStages::receive_result(int replica) {
  Pass& pass = pass_of(replica);
  const StageMessage message = receive(replica, *channels_->results, key_of(replica, 0));
  if (message.use) pass.in_all = *message.use;
  at::Tensor result = message.tensor;
  if (!wants_gradient(message)) return result;
  if (!pass.sent.requires_grad()) return result.requires_grad_();  // nothing of it is trained here
  std::vector<std::size_t> tied = tied_before(pass.before.with(pass.used), pass.in_all);
  std::vector<at::Tensor> inputs = {pass.sent};
  for (const std::size_t number : tied)
    inputs.push_back(variables_->variable(number).component(replica));
  const auto node = std::make_shared<RemoteGradient>(
      slots_, channels_, variables_, std::move(tied),
      RemoteGradient::Messages{.awaited = key_of(replica, pass.sent_stage)}, pass.sent_stage - 1);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::set_history(result, node);
  pass.sent.reset();
  return result;
}

void WorkerStages::end_layers_with_more(int /*replica*/) {
  refuse_several_results();
}

VariableSet WorkerStages::used_variables(const Pass& pass, const at::Tensor& end) const {
  if (!at::GradMode::is_enabled()) return variables_->none();
  const BackwardLeaves leaves = backward_leaves(end, *variables_, pass.received, pass.entry);
  // Within recompute a graph begins with leaves of its own. The node that sends the gradient would
  // then be missing, and the previous process would wait for it.
  const bool is_cut_off =
      pass.entry ? !leaves.has_inner
                 : pass.received.defined() && !leaves.has_received && leaves.has_others;
  if (is_cut_off) refuse_recompute(worker_);
  return leaves.variables;
}

VariableSet WorkerStages::add_used(Pass& pass, const at::Tensor& end) const {
  const VariableSet added = used_variables(pass, end);
  for (std::size_t i = 0; i < added.size(); ++i) pass.used[i] = pass.used[i] || added[i];
  return added;
}

void WorkerStages::check_loss(int replica, const at::Tensor& loss) {
  Pass& pass = pass_of(replica);
  if (local_.has_chunks()) check_none_is_tied(pass.in_all, *variables_);
  const BackwardLeaves leaves = backward_leaves(loss, *variables_, at::Tensor(), pass.result);
  pass.result.reset();
  check_penalties(leaves.variables, pass.in_all, *variables_);
}

void WorkerStages::begin_backward(int replica) {
  cut_.check_is_complete(replica);
  Pass& pass = pass_of(replica);
  check_state(pass.position == Position::kEnded,
              "A loss was minimized, and the model's forward pass has not ended: call the model by "
              "its handle, model(x), which exchanges its result with the other workers.");
  if (pass.has_backward) refuse_second_backward();
  pass.has_backward = true;
  cut_.begin_backward(replica);
  if (local_.last() == cut_.last_stage())
    enter_stage(*slots_, replica, PassDirection::kBackward, local_.last());
}

std::vector<at::Tensor> WorkerStages::backward_inputs(int replica) {
  const Pass& pass = pass_of(replica);
  std::vector<at::Tensor> inputs = pass.leaves;
  if (pass.received.defined()) inputs.push_back(pass.received);
  return inputs;
}

void WorkerStages::keep_local_gradients(int replica, std::span<const at::Tensor> variables,
                                        std::span<at::Tensor> gradients) {
  Pass& pass = pass_of(replica);
  const std::vector<std::size_t> tied = tied_before(pass.before, pass.in_all);
  pass.tied_to_send.assign(tied.size(), at::Tensor());
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    if (!gradients[k].defined()) continue;
    const auto number = variables_->find(variables[k]);
    if (!number) continue;
    const auto found = std::ranges::find(tied, *number);
    const bool is_sent = found != tied.end();
    if (is_sent) pass.tied_to_send[static_cast<std::size_t>(found - tied.begin())] = gradients[k];
    const bool is_of_others = !pass.used[*number] && pass.in_all.used[*number];
    if (!is_sent && !is_of_others) continue;
    gradients[k].reset();
    variables_->mark_trained_elsewhere(replica, *number);
  }
}

void WorkerStages::send_input_gradients(int replica, std::vector<at::Tensor> gradients) {
  Pass& pass = pass_of(replica);
  gradients.erase(gradients.begin(),
                  gradients.begin() + static_cast<std::ptrdiff_t>(pass.leaves.size()));
  pass.leaves.clear();
  if (gradients.empty()) return;
  if (!gradients.front().defined()) gradients.clear();
  pass.received.reset();
  const std::vector<std::size_t> tied = tied_before(pass.before, pass.in_all);
  if (!tied.empty()) gradients.push_back(pack_gradients(tied, pass.tied_to_send, *variables_));
  pass.tied_to_send.clear();
  channels_->gradients_out->send(key_of(replica, pass.received_stage), std::move(gradients));
}

void WorkerStages::end_backward(int replica) noexcept {
  cut_.end_backward(replica);
  slots_->finish(replica);
}

}  // namespace brigade::distribute
