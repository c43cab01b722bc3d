#include "brigade/distribute/optimizer/gradients.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/optimizer/gradient_check.h"

namespace brigade::distribute {

Gradients::Gradients(std::span<const variables::Variable> variables, std::vector<at::Tensor> values,
                     GradientState state, std::uint64_t step)
    : variables_(variables), values_(std::move(values)), state_(state), step_(step) {
  check_gradients(variables_, values_);
}

at::Tensor& Gradients::operator[](std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (variables_[i].name() == name) return values_[i];
    names.push_back(variables_[i].name());
  }
  throw Error(ErrorCode::kNotFound,
              base::str_cat("There is no gradient of a variable '", name, "'; this optimizer has ",
                            base::join(names, ", "), "."));
}

}  // namespace brigade::distribute
