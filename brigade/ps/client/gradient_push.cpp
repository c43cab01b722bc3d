#include "brigade/ps/client/gradient_push.h"

#include <ATen/ops/zeros.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/comm/local/row_sums.h"

namespace brigade::ps {
namespace {

/// In which values of a variable of dtype `own` travel.
at::ScalarType dtype_to_push(at::ScalarType own, std::optional<at::ScalarType> push_dtype) {
  return push_dtype && may_push(*push_dtype, own) ? *push_dtype : own;
}

}  // namespace

void check_pushable(const WorkerVariables& variables, std::span<const at::Tensor> gradients) {
  check_argument(gradients.size() == variables.size(), "A push has ", gradients.size(),
                 " gradients, and the job has ", variables.size(),
                 " variables: pass one for each, undefined for none.");
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& gradient = gradients[i];
    if (!gradient.defined()) continue;
    const std::string name = base::quoted(variables[i].name);
    check_argument(variables[i].is_trainable, "A push has a gradient of ", name,
                   ", which is not trainable.");
    check_argument(gradient.device().is_cpu() &&
                       (gradient.layout() == at::kStrided || comm::has_rows(gradient)),
                   "The gradient of ", name, " is on ", gradient.device().str(), " with layout ",
                   gradient.layout(),
                   ": it has to be on the CPU, and dense, or sparse along its first dimension.");
    const TensorForm form = form_of(gradient);
    check_argument(form == variables.form(i), "The gradient of ", name, " is ", text_of(form),
                   ", and the variable is ", text_of(variables.form(i)), ".");
  }
}

at::Tensor to_push(const at::Tensor& values, std::optional<at::ScalarType> push_dtype) {
  const at::Tensor own = values.detach();
  return own.to(dtype_to_push(own.scalar_type(), push_dtype)).contiguous();
}

std::vector<Push> divide_gradients(const WorkerVariables& variables,
                                   std::span<const at::Tensor> gradients, int servers,
                                   std::optional<at::ScalarType> push_dtype) {
  std::vector<Push> pushes(static_cast<std::size_t>(servers), Push{.gradients = {}});
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const std::string& name = variables[i].name;
    Push& push = pushes[static_cast<std::size_t>(variables[i].server)];
    if (comm::has_rows(gradients[i])) {
      comm::Rows rows = comm::rows_of(gradients[i].detach());
      push.rows.push_back({.name = name,
                           .indices = std::move(rows.indices),
                           .values = to_push(rows.values, push_dtype)});
    } else {
      push.gradients.push_back({.name = name, .tensor = to_push(gradients[i], push_dtype)});
    }
  }
  return pushes;
}

std::vector<Push> divide_gradients(const WorkerVariables& variables,
                                   std::span<const at::Tensor> gradients, int servers,
                                   std::optional<at::ScalarType> push_dtype,
                                   const EarlyPush& early) {
  std::vector<Push> pushes(static_cast<std::size_t>(servers), Push{.gradients = {}});
  for (std::size_t k = 0; k < early.order().size(); ++k) {
    const std::size_t i = early.order()[k];
    at::Tensor sent = early.sent(k);
    pushes[static_cast<std::size_t>(variables[i].server)].gradients.push_back(
        {.name = variables[i].name,
         .tensor = sent.defined() ? std::move(sent) : to_push(gradients[i], push_dtype)});
  }
  return pushes;
}

std::vector<Push> announce_gradients(const WorkerVariables& variables, const EarlyPush& early,
                                     int servers, std::optional<at::ScalarType> push_dtype) {
  std::vector<Push> pushes(static_cast<std::size_t>(servers), Push{.gradients = {}});
  for (const std::size_t i : early.order()) {
    const TensorForm& form = variables.form(i);
    pushes[static_cast<std::size_t>(variables[i].server)].gradients.push_back(
        {.name = variables[i].name,
         .tensor = at::zeros({}, dtype_to_push(form.dtype, push_dtype)).expand(form.sizes)});
  }
  return pushes;
}

}  // namespace brigade::ps
