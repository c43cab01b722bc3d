#include "brigade/train/graph/operation_scopes.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace brigade::train {
namespace {

/// Operations whose unknown input is usually a constant: the rate of weight decay, the divisor of a
/// mean.
bool takes_constants(std::string_view kind) {
  return kind == "Add" || kind == "Sub" || kind == "Mul" || kind == "Div" || kind == "Pow";
}

std::int64_t elements(const OperationNode& operation) {
  std::int64_t product = 1;
  if (!operation.output_shapes.empty()) {
    for (const std::int64_t size : operation.output_shapes.front()) product *= size;
  }
  return product;
}

}  // namespace

OperationScopes::Found OperationScopes::find(const OperationNode& operation) {
  Result result;
  std::vector<std::string> read,
      derived;  // layers of weights, and of results computed from weights
  bool reads_unknown = false, reads_data = false;
  for (const OperationInput& input : operation.inputs) {
    if (input.leaf != nullptr) {
      const auto leaf = leaves_.find(input.leaf);
      read.push_back(leaf == leaves_.end() ? "" : leaf->second.layer);
      result.weights.emplace(input.leaf, input.leaf_elements);
    } else if (input.operation) {
      const Result& source = results_[*input.operation];
      if (!source.is_of_weights) {
        reads_data = true;
        continue;
      }
      (source.carries_them ? read : derived).push_back(source.layer);
      result.weights.insert(source.weights.begin(), source.weights.end());
    } else {
      reads_unknown = true;
    }
  }
  const bool is_elementwise = takes_constants(operation.kind);
  result.is_of_weights =
      !reads_data && !result.weights.empty() && (!reads_unknown || is_elementwise);
  std::int64_t weights = 0;
  for (const auto& [leaf, count] : result.weights) weights += count;
  result.carries_them = result.is_of_weights && elements(operation) == weights;
  if (!read.empty()) {
    result.layer = read.front();
  } else if (result.is_of_weights && std::adjacent_find(derived.begin(), derived.end(),
                                                        std::not_equal_to<>()) == derived.end()) {
    result.layer = derived.front();
  }
  const bool reads_inputs = reads_unknown && !read.empty() && !result.is_of_weights && !reads_data;
  Found found{result.layer, reads_inputs};
  results_.push_back(std::move(result));
  return found;
}

}  // namespace brigade::train
