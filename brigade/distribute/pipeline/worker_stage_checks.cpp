#include "brigade/distribute/pipeline/worker_stage_checks.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/comm/tensor_channel.h"

namespace brigade::distribute {

namespace {

/// Whether both are batches of the same kind of example, whatever their number.
bool have_same_examples(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() != b.dim() || a.scalar_type() != b.scalar_type()) return false;
  for (std::int64_t d = 1; d < a.dim(); ++d) {
    if (a.size(d) != b.size(d)) return false;
  }
  return true;
}

}  // namespace

void check_same_layer(const at::Tensor& received, const at::Tensor& local, std::string_view layer,
                      const std::string& worker) {
  if (have_same_examples(received, local)) return;
  throw Error(ErrorCode::kInvalidArgument, "The layer ", base::quoted(layer), " begins with ",
              comm::shape_of(received), " in the worker before, and with ", comm::shape_of(local),
              " in ", worker,
              ", of which only the first size may differ: make the same model in every worker.");
}

void refuse_second_pass(std::string_view layer) {
  throw Error(ErrorCode::kUnimplemented,
              "The model passes through its stages a second time in a step, at ", "layer ",
              base::quoted(layer),
              ": pipelines over several workers make one pass a step. Use one worker.");
}

void refuse_second_backward() {
  throw Error(ErrorCode::kUnimplemented,
              "A micro-batch goes backward a second time in a step: pipelines over several "
              "workers make one backward pass a step. Use one optimizer, or one worker.");
}

void refuse_several_results() {
  throw Error(ErrorCode::kUnimplemented,
              "The model returns more than one tensor: in a pipeline over several workers its "
              "result is one tensor, which the last stage sends to all. Use one worker.");
}

void refuse_detached(const std::string& worker, int stage) {
  throw Error(ErrorCode::kUnimplemented, "In ", worker, " a stage before stage ", stage,
              " of the pipeline ends with a tensor that has no gradient, and stages before it are "
              "trained: with the schedule interleaved over several workers that is not built. Use "
              "k1F1B, or one worker.");
}

void refuse_recompute(const std::string& worker) {
  throw Error(ErrorCode::kUnimplemented, "In ", worker,
              " the pipeline's stages end with a tensor that has no ",
              "gradient by what came from the stage before: a stage of another ",
              "worker must not begin within layers::recompute. Let recompute ",
              "begin after the stage does, and end before the next one begins.");
}

// Terms of other workers would have to come between the local terms of the weight's gradient.
void check_none_is_tied(const VariableUse& use, const StageVariables& variables) {
  const auto tied = std::ranges::find(use.tied, true);
  if (tied == use.tied.end()) return;
  const auto number = static_cast<std::size_t>(tied - use.tied.begin());
  throw Error(ErrorCode::kUnimplemented, "Several stages of the pipeline use the variable '",
              variables.variable(number).name(),
              "': with the schedule interleaved over several workers that is not built. Use k1F1B, "
              "or one worker.");
}

// Every worker computes the penalty: its part of the gradient would be added several times, and
// before the parts of later workers.
void check_penalties(const VariableSet& penalized, const VariableUse& use,
                     const StageVariables& variables) {
  for (std::size_t i = 0; i < penalized.size(); ++i) {
    if (!penalized[i] || !use.tied[i]) continue;
    throw Error(
        ErrorCode::kUnimplemented, "The loss has a penalty of the variable '",
        variables.variable(i).name(),
        "', which stages of several workers use: such penalties are not built. Use the optimizer's "
        "weight decay, or cut the pipeline so that one worker has all layers that use it.");
  }
}

}  // namespace brigade::distribute
