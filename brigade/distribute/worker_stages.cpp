#include "brigade/distribute/worker_stages.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
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

void continue_random_numbers(const at::Tensor& state) {
  device::ReplicaGenerator* generator = device::kGeneratorSlot.get();
  if (generator == nullptr) return;
  generator->set_state(state.numel() > 0 ? state.clone() : at::Tensor());
}

/// The components of these variables in a micro-batch.
std::vector<at::Tensor> components_of(const std::vector<std::size_t>& numbers,
                                      const StageVariables& variables, int replica) {
  std::vector<at::Tensor> components;
  for (const std::size_t number : numbers)
    components.push_back(variables.variable(number).component(replica));
  return components;
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
/// there, and for the pass on the own stage that sent it. On CPUs it runs on the micro-batch's
/// thread. Its outputs are that gradient, and those of tied weights that the processes after have
/// computed: they are the first parts of these weights' gradients, as in the backward pass of one
/// process.
///
/// Its input is the gradient by the model's result, which every process has, or, between two own
/// stages, the gradient by what was received there, which it sends to the process before.
class WorkerStages::RemoteGradient final : public torch::autograd::Node {
 public:
  struct Messages {
    comm::MessageKey awaited;
    std::optional<comm::MessageKey> sent = std::nullopt;
  };

  RemoteGradient(std::shared_ptr<StageSlots> slots, std::shared_ptr<const StageChannels> channels,
                 std::shared_ptr<const StageVariables> variables, std::vector<std::size_t> tied,
                 const Messages& messages, int stage)
      : slots_(std::move(slots)),
        channels_(std::move(channels)),
        variables_(std::move(variables)),
        tied_(std::move(tied)),
        messages_(messages),
        stage_(stage) {}

  std::string name() const override { return "RemoteGradient"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& inputs) override {
    if (messages_.sent) send(inputs.front());
    std::vector<at::Tensor> message;
    {
      const comm::PhaseScope waiting(current_step_clock(), comm::StepPhase::kWait);
      message = channels_->receive(*channels_->gradients_in, messages_.awaited);
    }
    enter_stage(*slots_, replica(), PassDirection::kBackward, stage_);
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

 private:
  int replica() const { return messages_.awaited.number; }
  void send(const at::Tensor& gradient) const {
    slots_->pause(replica());
    std::vector<at::Tensor> message;
    if (gradient.defined()) message.push_back(gradient);
    channels_->gradients_out->send(*messages_.sent, std::move(message));
  }

  const std::shared_ptr<StageSlots> slots_;
  const std::shared_ptr<const StageChannels> channels_;
  const std::shared_ptr<const StageVariables> variables_;
  const std::vector<std::size_t> tied_;  // that the next process sends gradients of
  const Messages messages_;
  const int stage_;
};

WorkerStages::WorkerStages(std::shared_ptr<StageSlots> slots, StageStarts starts, OwnStages own,
                           std::shared_ptr<StageVariables> variables, int micro_batches,
                           std::shared_ptr<const StageChannels> channels, PipelineWorkers workers)
    : slots_(std::move(slots)),
      cut_(std::move(starts), micro_batches),
      own_(own),
      variables_(std::move(variables)),
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
  variables_->begin_step();
  cut_.begin_step();
  Pass pass;
  pass.used = variables_->none();
  pass.before = {.used = pass.used, .tied = pass.used};
  pass.in_all = pass.before;
  passes_.assign(passes_.size(), pass);
  to_end_ = static_cast<int>(passes_.size());
  has_failed_ = false;
  channels_->begin_step(step_);
  slots_->start();
}

void WorkerStages::end(int task) {
  slots_->end(task);
  if (--to_end_ > 0) return;
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
  if (pass.where == Where::kNotBegun) x = begin_model(pass, given);
  if (pass.where == Where::kEnded) {
    throw Error(ErrorCode::kUnimplemented,
                base::str_cat("The model passes through its stages a second time in a step, at ",
                              "layer ", base::quoted(layer),
                              ": pipelines over several workers make one pass a step. Use one "
                              "worker."));
  }
  if (!stage) return pass.crossed.defined() && x.is_same(pass.crossed) ? pass.in_its_place : x;
  const bool comes = own_.has(*stage);
  const bool leaves = own_.has(*stage - 1);
  if (!comes && !leaves) return x;
  at::Tensor moved;
  if (!leaves) {
    moved = receive_activation(replica, layer, *stage, x);
  } else if (!comes) {
    moved = send_activation(replica, *stage, x);
  } else {
    moved = move_to_stage(slots_, replica, *stage, x);
  }
  pass.crossed = x;
  pass.in_its_place = moved;
  return moved;
}

at::Tensor WorkerStages::begin_model(Pass& pass, const at::Tensor& x) const {
  if (own_.first() == 0) {
    pass.where = Where::kInside;
    return x;
  }
  pass.where = Where::kBefore;
  return without_examples(x);
}

/// What accompanies a tensor: whether its sender wants the gradient by it, then which variables the
/// stages have used, and the state of the micro-batch's random numbers, if some were drawn.
at::Tensor WorkerStages::companion_of(const at::Tensor& x, const VariableUse& use) const {
  std::vector<at::Tensor> parts = {at::full({1}, x.requires_grad() ? 1 : 0, at::kByte)};
  if (x.requires_grad()) parts.push_back(to_bytes(use));
  const device::ReplicaGenerator* generator = device::kGeneratorSlot.get();
  const at::Tensor state = generator ? generator->state() : at::Tensor();
  if (state.defined()) parts.push_back(state);
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

at::Tensor WorkerStages::receive(int replica, comm::TensorChannel& channel,
                                 const comm::MessageKey& key, bool& wants, VariableUse& use) {
  slots_->pause(replica);
  std::vector<at::Tensor> message;
  {
    const comm::PhaseScope waiting(current_step_clock(), comm::StepPhase::kWait);
    message = channels_->receive(channel, key);
  }
  const at::Tensor& companion = message.at(1);
  const bool has_use = companion[0].item<int>() != 0;
  const std::int64_t use_bytes = has_use ? bytes_of_use(variables_->count()) : 0;
  check_state(companion.numel() >= 1 + use_bytes,
              "Another worker of the pipeline trains fewer variables: make the same model, and the "
              "same optimizers, in every worker.");
  if (has_use) use = use_from_bytes(companion.narrow(0, 1, use_bytes), variables_->count());
  continue_random_numbers(companion.slice(0, 1 + use_bytes));
  wants = at::GradMode::is_enabled() && has_use;
  return message.front();
}

/// The variables that the own stages use which end with this tensor.
VariableSet WorkerStages::use_behind(const Pass& pass, const at::Tensor& end) const {
  if (!at::GradMode::is_enabled()) return variables_->none();
  const BackwardLeaves leaves = leaves_behind(end, *variables_, pass.received, pass.entered);
  // Inside of recompute a graph begins with leaves of its own. And without the node the process
  // before would wait for its gradient.
  const bool is_cut_off =
      pass.entered ? !leaves.has_inner
                   : pass.received.defined() && !leaves.has_received && leaves.has_others;
  if (is_cut_off) {
    throw Error(
        ErrorCode::kUnimplemented,
        base::str_cat("In ", worker_, " the pipeline's stages end with a tensor that has no ",
                      "gradient by what came from the stage before: a stage of another ",
                      "worker must not begin within layers::recompute. Let recompute ",
                      "begin after the stage does, and end before the next one begins."));
  }
  return leaves.variables;
}

/// The same, which count from now on.
VariableSet WorkerStages::use_stages(Pass& pass, const at::Tensor& end) const {
  const VariableSet here = use_behind(pass, end);
  for (std::size_t i = 0; i < here.size(); ++i) pass.used[i] = pass.used[i] || here[i];
  return here;
}

/// The variables of which the process that has received `before` sends gradients back.
std::vector<std::size_t> WorkerStages::tied_before(const VariableUse& before,
                                                   const VariableUse& in_all) const {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < in_all.tied.size(); ++i)
    if (in_all.tied[i] && before.used[i]) numbers.push_back(i);
  return numbers;
}

at::Tensor WorkerStages::receive_activation(int replica, std::string_view layer, int stage,
                                            const at::Tensor& like) {
  Pass& pass = pass_of(replica);
  bool wants = false;
  const at::Tensor x =
      receive(replica, *channels_->activations_in, key_of(replica, stage), wants, pass.before);
  if (!are_alike(x, like)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        base::str_cat("The layer ", base::quoted(layer), " begins with ", comm::shape_of(x),
                      " in the worker before, and with ", comm::shape_of(like), " in ", worker_,
                      ", of which only the first size may differ: make the same model in "
                      "every worker."));
  }
  enter_stage(*slots_, replica, PassDirection::kForward, stage);
  const bool is_last_chunk = own_.chunk_of(stage) == own_.chunk_of(own_.last());
  if (own_.last() == cut_.last_stage() && is_last_chunk && !at::GradMode::is_enabled())
    slots_->finish(replica);
  pass.where = Where::kInside;
  return wants ? continue_received(replica, stage, x) : x;
}

void WorkerStages::refuse_detached(int stage) const {
  throw Error(ErrorCode::kUnimplemented,
              base::str_cat("In ", worker_, " a stage before stage ", stage,
                            " of the pipeline ends with a tensor that has no gradient, and stages "
                            "before it are trained: with the schedule interleaved over several "
                            "workers that is not built. Use k1F1B, or one worker."));
}

/// A tensor with which the model may go on. It may change it in place, which a leaf of the graph
/// does not allow.
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
    pass.entered = node.get();
  } else {
    if (pass.received.defined()) refuse_detached(stage);
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
  const VariableSet used = use_stages(pass, x);
  channels_->activations_out->send(key_of(replica, stage),
                                   {x, companion_of(x, pass.before.with(used))});
  if (at::GradMode::is_enabled()) {
    pass.sent = x;
    pass.sent_stage = stage;
  } else if (stage > own_.last()) {
    slots_->finish(replica);
  }
  slots_->pause(replica);
  pass.where = Where::kAfter;
  return without_examples(x);
}

at::Tensor WorkerStages::end_layers(int replica, const at::Tensor& result) {
  if (cut_.is_in_backward(replica)) return result;
  cut_.check_is_complete(replica);
  Pass& pass = pass_of(replica);
  pass.where = Where::kEnded;
  pass.crossed.reset();
  pass.in_its_place.reset();
  if (own_.last() < cut_.last_stage()) {
    pass.result = receive_result(replica);
    return pass.result;
  }
  pass.in_all = pass.before.with(use_stages(pass, result));
  pass.result = result;
  // A copy: the program may change the result in place.
  channels_->results->send(key_of(replica, 0),
                           {result.detach().clone(), companion_of(result, pass.in_all)});
  return result;
}

at::Tensor WorkerStages::receive_result(int replica) {
  Pass& pass = pass_of(replica);
  bool wants = false;
  at::Tensor result = receive(replica, *channels_->results, key_of(replica, 0), wants, pass.in_all);
  if (!wants) return result;
  if (!pass.sent.requires_grad()) return result.requires_grad_();  // nothing of it is trained here
  std::vector<std::size_t> tied = tied_before(pass.before.with(pass.used), pass.in_all);
  std::vector<at::Tensor> by = {pass.sent};
  std::ranges::move(components_of(tied, *variables_, replica), std::back_inserter(by));
  const auto node = std::make_shared<RemoteGradient>(
      slots_, channels_, variables_, std::move(tied),
      RemoteGradient::Messages{.awaited = key_of(replica, pass.sent_stage)}, pass.sent_stage - 1);
  node->set_next_edges(torch::autograd::collect_next_edges(by));
  torch::autograd::set_history(result, node);
  pass.sent.reset();
  return result;
}

void WorkerStages::end_layers_with_more(int /*replica*/) {
  throw Error(ErrorCode::kUnimplemented,
              "The model returns more than one tensor: in a pipeline over several workers its "
              "result is one tensor, which the last stage sends to all. Use one worker.");
}

// Between the parts of a weight's gradient would come those of other workers.
void WorkerStages::check_tied(const Pass& pass) const {
  const auto tied = std::ranges::find(pass.in_all.tied, true);
  if (!own_.has_chunks() || tied == pass.in_all.tied.end()) return;
  const auto number = static_cast<std::size_t>(tied - pass.in_all.tied.begin());
  throw Error(ErrorCode::kUnimplemented,
              base::str_cat("Several stages of the pipeline use the variable '",
                            variables_->variable(number).name(),
                            "': with the schedule interleaved over several workers that is not "
                            "built. Use k1F1B, or one worker."));
}

// The penalty's part of the gradient would come before those of the processes after, and be added
// once more.
void WorkerStages::check_loss(int replica, const at::Tensor& loss) {
  Pass& pass = pass_of(replica);
  check_tied(pass);
  const VariableSet penalized =
      leaves_behind(loss, *variables_, at::Tensor(), pass.result).variables;
  pass.result.reset();
  for (std::size_t i = 0; i < penalized.size(); ++i) {
    if (!penalized[i] || !pass.in_all.tied[i]) continue;
    throw Error(
        ErrorCode::kUnimplemented,
        base::str_cat("The loss has a penalty of the variable '", variables_->variable(i).name(),
                      "', which stages of several workers use: such penalties are not "
                      "built. Use the optimizer's weight decay, or cut the pipeline so "
                      "that one worker has all layers that use it."));
  }
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
  if (own_.last() == cut_.last_stage())
    enter_stage(*slots_, replica, PassDirection::kBackward, own_.last());
}

std::vector<at::Tensor> WorkerStages::backward_inputs(int replica) {
  const Pass& pass = pass_of(replica);
  std::vector<at::Tensor> inputs = pass.leaves;
  if (pass.received.defined()) inputs.push_back(pass.received);
  return inputs;
}

void WorkerStages::divide_gradients(int replica, std::span<const at::Tensor> variables,
                                    std::span<at::Tensor> gradients) {
  Pass& pass = pass_of(replica);
  const std::vector<std::size_t> tied = tied_before(pass.before, pass.in_all);
  pass.tied.assign(tied.size(), at::Tensor());
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    if (!gradients[k].defined()) continue;
    const auto number = variables_->find(variables[k]);
    if (!number) continue;
    const auto found = std::ranges::find(tied, *number);
    const bool is_of_earlier = found != tied.end();
    if (is_of_earlier) pass.tied[static_cast<std::size_t>(found - tied.begin())] = gradients[k];
    const bool is_of_others = !pass.used[*number] && pass.in_all.used[*number];
    if (!is_of_earlier && !is_of_others) continue;
    gradients[k].reset();
    variables_->give_away(replica, *number);
  }
}

void WorkerStages::take_gradients(int replica, std::vector<at::Tensor> gradients) {
  Pass& pass = pass_of(replica);
  gradients.erase(gradients.begin(),
                  gradients.begin() + static_cast<std::ptrdiff_t>(pass.leaves.size()));
  pass.leaves.clear();
  if (gradients.empty()) return;
  if (!gradients.front().defined()) gradients.clear();
  pass.received.reset();
  const std::vector<std::size_t> tied = tied_before(pass.before, pass.in_all);
  if (!tied.empty()) gradients.push_back(pack_gradients(tied, pass.tied, *variables_));
  pass.tied.clear();
  channels_->gradients_out->send(key_of(replica, pass.received_stage), std::move(gradients));
}

void WorkerStages::end_backward(int replica) noexcept {
  cut_.end_backward(replica);
  slots_->finish(replica);
}

}  // namespace brigade::distribute
