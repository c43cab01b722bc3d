#include "brigade/train/session/step_values.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::train {

StepValues::StepValues(std::initializer_list<std::pair<std::string, at::Tensor>> values) {
  for (const auto& [name, value] : values) set(name, value);
}

void StepValues::set(std::string_view name, const at::Tensor& value) {
  check_argument(value.defined(), "The step's value '", name, "' is undefined.");
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [&](const auto& each) { return each.first == name; });
  if (found != values_.end()) {
    found->second = value.detach();
  } else {
    values_.emplace_back(name, value.detach());
  }
}

void StepValues::set(std::string_view name, double value) {
  set(name, at::scalar_tensor(value, at::kDouble));
}

bool StepValues::has(std::string_view name) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const auto& each) { return each.first == name; });
}

std::vector<std::string> StepValues::names() const {
  std::vector<std::string> names;
  for (const auto& each : values_) names.push_back(each.first);
  return names;
}

const at::Tensor& StepValues::tensor(std::string_view name) const {
  for (const auto& each : values_) {
    if (each.first == name) return each.second;
  }
  throw Error(ErrorCode::kNotFound, "The step returned no value '", name,
              "'; it returned: ", values_.empty() ? "none" : base::join(names(), ", "), ".");
}

double StepValues::number(std::string_view name) const {
  const at::Tensor& value = tensor(name);
  check_argument(value.numel() == 1, "The step's value '", name, "' has the shape ", value.sizes(),
                 " and is not a single number.");
  return value.item().toDouble();
}

}  // namespace brigade::train
