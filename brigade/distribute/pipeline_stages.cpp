#include "brigade/distribute/pipeline_stages.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"
#include "brigade/comm/step_clock.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

using concurrency::PassDirection;
using concurrency::StageSlots;

void enter(StageSlots& slots, int replica, PassDirection direction, int stage) {
  const comm::PhaseScope waiting(current_step_clock(), comm::StepPhase::kWait);
  slots.enter(replica, direction, stage);
}

/// Where a micro-batch goes back to the previous stage. It runs on the thread that runs backward:
/// on CPUs the micro-batch's own.
class StageBoundary final : public torch::autograd::Node {
 public:
  StageBoundary(std::shared_ptr<StageSlots> slots, int replica, int previous_stage)
      : slots_(std::move(slots)), replica_(replica), previous_stage_(previous_stage) {}

  std::string name() const override { return "StageBoundary"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    enter(*slots_, replica_, PassDirection::kBackward, previous_stage_);
    return std::move(gradients);
  }

 private:
  const std::shared_ptr<StageSlots> slots_;
  const int replica_;
  const int previous_stage_;
};

}  // namespace

PipelineStages::PipelineStages(std::shared_ptr<StageSlots> slots, std::vector<std::string> cut,
                               int micro_batches)
    : slots_(std::move(slots)),
      cut_(std::move(cut)),
      passes_(static_cast<std::size_t>(micro_batches)) {}

at::Tensor PipelineStages::begin_layer(int replica, std::string_view name, const at::Tensor& x) {
  MicroBatchPass& pass = passes_[static_cast<std::size_t>(replica)];
  if (pass.is_in_backward) return x;
  const auto found = std::ranges::find(cut_, name);
  const int stage = found == cut_.end() ? 0 : static_cast<int>(found - cut_.begin()) + 1;
  if (stage > 0) check_move(pass, stage);
  if (!is_verified_ && std::ranges::find(pass.layers, name) == pass.layers.end())
    pass.layers.emplace_back(name);
  if (stage == 0) return x;
  enter(*slots_, replica, PassDirection::kForward, stage);
  pass.stage = stage;
  const bool has_backward = at::GradMode::is_enabled();
  if (stage == last_stage() && !has_backward) slots_->finish(replica);
  if (!has_backward || !x.requires_grad()) return x;
  // The same memory and the same version counter: a change in place is noticed as without a cut.
  at::Tensor moved = x.detach();
  const auto boundary = std::make_shared<StageBoundary>(slots_, replica, stage - 1);
  boundary->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::set_history(moved, boundary);
  return moved;
}

void PipelineStages::check_move(MicroBatchPass& pass, int stage) const {
  const auto index = static_cast<std::size_t>(stage) - 1;
  const bool is_first_layer = stage == 1 && !is_verified_ && pass.layers.empty();
  if (is_first_layer) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("The pipeline is cut before ", base::quoted(cut_[index]),
                              ", with which the model begins: the first stage would have no layer. "
                              "Name the layers with which the stages after the first begin."));
  }
  const bool is_next = stage == pass.stage + 1 || stage == 1;  // 1: another forward pass
  if (is_next) return;
  pass.layers.clear();
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The pipeline's layer ", base::quoted(cut_[index]), " begins stage ",
                            stage, ", and the model comes to it from stage ", pass.stage,
                            ": name the layers of the cut in the order of the model (",
                            base::join(cut_, ", "), ")."));
}

void PipelineStages::begin_backward(int replica) {
  MicroBatchPass& pass = passes_[static_cast<std::size_t>(replica)];
  if (!is_verified_) {
    if (pass.stage != last_stage()) {
      const Error error = not_reached(pass);
      pass = MicroBatchPass();
      throw error;
    }
    is_verified_ = true;
  }
  pass.is_in_backward = true;
  enter(*slots_, replica, PassDirection::kBackward, last_stage());
}

void PipelineStages::end_backward(int replica) noexcept {
  passes_[static_cast<std::size_t>(replica)].is_in_backward = false;
  slots_->finish(replica);
}

Error PipelineStages::not_reached(const MicroBatchPass& pass) const {
  const std::string& missing = cut_[static_cast<std::size_t>(pass.stage)];
  const std::string text =
      base::str_cat("The pipeline has ", cut_.size() + 1, " stages, and the model has no layer ",
                    base::quoted(missing), " with which stage ", pass.stage + 1, " would begin");
  if (pass.layers.empty()) {
    return {ErrorCode::kInvalidArgument,
            base::str_cat(text,
                          ": it names none. Let its forward pass call begin_layer(name, x) before "
                          "its layers, or use a LayerSequence.")};
  }
  return {ErrorCode::kInvalidArgument,
          base::str_cat(text, base::did_you_mean(missing, pass.layers, "."),
                        " Its layers: ", base::join(pass.layers, ", "), ".")};
}

}  // namespace brigade::distribute
