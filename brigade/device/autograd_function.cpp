#include "brigade/device/autograd_function.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <mutex>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::device {

using torch::autograd::SavedVariable;

at::Tensor AutogradFunction::call(const std::shared_ptr<AutogradFunction>& function,
                                  const Tensors& inputs) {
  const bool is_recorded =
      at::GradMode::is_enabled() && torch::autograd::any_variable_requires_grad(inputs);
  if (is_recorded) function->set_next_edges(torch::autograd::collect_next_edges(inputs));
  at::Tensor result;
  {
    const at::NoGradGuard no_grad;
    result = function->forward(inputs);
  }
  if (!is_recorded) return result;
  function->result_ = torch::autograd::VariableInfo(result);
  torch::autograd::set_history(result, function);
  return result;
}

void AutogradFunction::save_for_backward(const Tensors& tensors) {
  if (!is_recorded()) return;
  saved_.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) saved_.emplace_back(tensor, /*is_output=*/false);
}

AutogradFunction::Tensors AutogradFunction::saved() const {
  Tensors tensors;
  tensors.reserve(saved_.size());
  for (const SavedVariable& each : saved_) tensors.push_back(each.unpack());
  return tensors;
}

AutogradFunction::Tensors AutogradFunction::apply(Tensors&& gradients) {
  const std::lock_guard lock(mutex_);
  at::OptionalDeviceGuard device;
  if (!gradients[0].defined()) gradients[0] = result_.zeros(device);
  Tensors of_inputs = backward(gradients);
  if (of_inputs.size() == num_outputs()) return of_inputs;
  throw Error(ErrorCode::kFailedPrecondition,
              base::str_cat(name(), ": backward() returned ", of_inputs.size(), " gradients for ",
                            num_outputs(), " inputs."));
}

void AutogradFunction::release_variables() {
  const std::lock_guard lock(mutex_);
  for (SavedVariable& each : saved_) each.reset_data();
}

}  // namespace brigade::device
