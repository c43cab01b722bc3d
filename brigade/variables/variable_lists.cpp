#include "brigade/variables/variable_lists.h"

#include <algorithm>

#include "brigade/comm/replica.h"
#include "brigade/variables/collections.h"
#include "brigade/variables/variable_request.h"

namespace brigade::variables {

namespace {

bool begins_with_any(const std::string& name, std::span<const std::string> scopes) {
  return std::ranges::any_of(scopes,
                             [&](const std::string& scope) { return name.starts_with(scope); });
}

}  // namespace

std::vector<Variable> get_variables(std::string_view collection, std::string_view scope) {
  return require_graph("get_variables").store().variables(collection, scope);
}
std::vector<Variable> global_variables(std::string_view scope) {
  return get_variables(kGlobalVariables, scope);
}
std::vector<Variable> trainable_variables(std::string_view scope) {
  return get_variables(kTrainableVariables, scope);
}
std::vector<Variable> local_variables(std::string_view scope) {
  return get_variables(kLocalVariables, scope);
}
std::vector<Variable> get_model_variables(std::string_view scope) {
  return get_variables(kModelVariables, scope);
}

std::vector<Variable> get_variables_to_restore(std::span<const std::string> include,
                                               std::span<const std::string> exclude) {
  std::vector<Variable> variables = global_variables();
  std::erase_if(variables, [&](const Variable& variable) {
    return (!include.empty() && !begins_with_any(variable.name(), include)) ||
           begins_with_any(variable.name(), exclude);
  });
  return variables;
}

std::vector<at::Tensor> get_regularization_losses(std::string_view scope) {
  std::vector<at::Tensor> losses;
  for (const NamedVariable& named :
       require_graph("get_regularization_losses").store().regularized(scope)) {
    const at::Tensor loss = named.regularizer(named.variable.local());
    if (loss.defined()) losses.push_back(loss);
  }
  return losses;
}

Variable get_or_create_global_step() {
  Graph& graph = require_graph("get_or_create_global_step");
  if (const auto found = get_global_step()) return *found;
  const GetVariableRequest request{
      .name = kGlobalStep,
      .shape = std::vector<std::int64_t>{},
      .options = {.dtype = at::kLong,
                  .initializer = zeros_initializer(),
                  .trainable = false,
                  .collections = std::vector<std::string>{kGlobalVariables, kGlobalStep},
                  .aggregation = Aggregation::kOnlyFirstReplica}};
  // Without the open scope's prefix and getters: there is one global step.
  const Reuse reuse = comm::current_replica() != nullptr ? Reuse::kYes : Reuse::kAuto;
  return fetch(graph, CustomGetter(), reuse, request);
}

std::optional<Variable> get_global_step() {
  const std::vector<Variable> steps = get_variables(kGlobalStep);
  if (steps.empty()) return std::nullopt;
  return steps.front();
}

}  // namespace brigade::variables
