#include "brigade/distribute/optimizer/gradient_check.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/communicator.h"

namespace brigade::distribute {

namespace {

std::string describe(const at::Tensor& tensor) {
  return base::str_cat(comm::shape_of(tensor), " on ", tensor.device());
}

[[noreturn]] void refuse(const variables::Variable& variable, const at::Tensor& gradient,
                         const at::Tensor& component) {
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The gradient of variable '", variable.name(), "' is ",
                            describe(gradient), " and must be ", describe(component),
                            ", as the variable is: reshape, convert or move what is assigned."));
}

void check_count(std::span<const variables::Variable> variables,
                 std::span<const at::Tensor> gradients) {
  if (gradients.size() == variables.size()) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("There are ", gradients.size(), " gradients for ", variables.size(),
                            " variables; give one per variable, undefined if it has none."));
}

bool fits(const at::Tensor& gradient, const at::Tensor& component) {
  return gradient.scalar_type() == component.scalar_type() && gradient.sizes() == component.sizes();
}

/// For an unknown replica. (Components that a program converted are detected elsewhere.)
bool fits_any(const at::Tensor& gradient, const variables::Variable& variable) {
  for (int replica = 0; replica < variable.num_components(); ++replica) {
    if (fits(gradient, variable.component(replica))) return true;
  }
  return false;
}

}  // namespace

void check_gradients(std::span<const variables::Variable> variables,
                     std::span<const at::Tensor> gradients) {
  check_count(variables, gradients);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    if (!fits_any(gradients[i], variables[i]))
      refuse(variables[i], gradients[i], variables[i].component(0));
  }
}

void check_gradients(std::span<const variables::Variable> variables,
                     std::span<const at::Tensor> gradients, int replica) {
  check_count(variables, gradients);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const at::Tensor& component = variables[i].component(replica);
    if (!fits(gradients[i], component) || gradients[i].device() != component.device())
      refuse(variables[i], gradients[i], component);
  }
}

}  // namespace brigade::distribute
