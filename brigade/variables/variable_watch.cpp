#include "brigade/variables/variable_watch.h"

#include <ATen/core/grad_mode.h>

#include <cstddef>
#include <utility>

namespace brigade::variables {

namespace {

std::uint32_t version_of(const Variable& variable) {
  return static_cast<std::uint32_t>(variable.local()._version());
}

}  // namespace

VariableWatch::VariableWatch(const VariableStore& store)
    : store_(store), variables_(store.non_trainable_variables()) {
  for (const Variable& variable : variables_) versions_.push_back(version_of(variable));
}

std::vector<Variable> VariableWatch::changed() const {
  std::vector<Variable> changed;
  std::size_t known = 0;  // both lists are in the order of names
  for (Variable& variable : store_.non_trainable_variables()) {
    while (known < variables_.size() && variables_[known].name() < variable.name()) ++known;
    const bool is_known = known < variables_.size() && variables_[known].is_same(variable);
    if (!is_known || version_of(variable) != versions_[known])
      changed.push_back(std::move(variable));
  }
  return changed;
}

KeptValues::KeptValues(std::vector<Variable> variables) : variables_(std::move(variables)) {
  for (const Variable& variable : variables_) values_.push_back(variable.local().detach().clone());
}

void KeptValues::restore() const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < variables_.size(); ++i) variables_[i].local().copy_(values_[i]);
}

}  // namespace brigade::variables
