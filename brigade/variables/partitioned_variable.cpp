#include "brigade/variables/partitioned_variable.h"

#include <ATen/ops/cat.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/variables/variable_partition.h"
#include "brigade/variables/variable_request.h"

namespace brigade::variables {

namespace {

/// The request for partition `part`: created with its initial value, or, without one, found.
GetVariableRequest part_request(const GetVariableRequest& whole, const Partition& cut,
                                const std::vector<std::int64_t>& sizes, std::size_t part,
                                const std::vector<at::Tensor>& first_values) {
  GetVariableRequest request = whole;
  request.name = base::str_cat(whole.name, "/part_", part);
  request.options.partitioner = {};
  request.shape.reset();
  request.options.initializer = {};
  if (!first_values.empty()) {
    request.options.initializer = Initializer::constant_value(first_values[part].contiguous());
    return request;
  }
  request.shape = cut.shape;
  (*request.shape)[axis_of(cut)] = sizes[part];
  return request;
}

/// Slices of the initial value of the whole variable.
std::vector<at::Tensor> first_values(const VariableStore& store, const GetVariableRequest& request,
                                     const Partition& cut, const std::vector<std::int64_t>& sizes) {
  return initial_value(store, request)
      .split_with_sizes(sizes, static_cast<std::int64_t>(axis_of(cut)));
}

}  // namespace

PartitionedVariable::PartitionedVariable(std::string name, std::vector<Variable> parts,
                                         std::int64_t axis)
    : name_(std::move(name)), parts_(std::move(parts)), axis_(axis) {
  check_argument(!parts_.empty(), "A partitioned variable needs at least one partition.");
}

std::vector<std::int64_t> PartitionedVariable::shape() const {
  std::vector<std::int64_t> shape = parts_.front().shape().vec();
  for (std::size_t i = 1; i < parts_.size(); ++i) shape[axis_] += parts_[i].shape()[axis_];
  return shape;
}

at::Tensor PartitionedVariable::value() const {
  const at::Tensor& first = parts_.front().local();
  if (parts_.size() == 1) return first;
  std::vector<at::Tensor> values;
  for (const Variable& part : parts_) values.push_back(part.local().to(first.device()));
  return at::cat(values, axis_);
}

PartitionedVariable get_partitioned_variable(const std::string& name,
                                             const std::optional<std::vector<std::int64_t>>& shape,
                                             const VariableOptions& options) {
  Graph& graph = require_graph("get_partitioned_variable");
  const VariableScope scope = get_variable_scope();
  const GetVariableRequest request = make_request(scope, name, shape, options);
  const std::optional<Partition> cut = partition_in_force(graph.store(), scope, request);
  if (!cut) return {request.name, {fetch(graph, scope, request)}, 0};
  return fetch_parts(graph, scope, request, *cut);
}

PartitionedVariable fetch_parts(Graph& graph, const VariableScope& scope,
                                const GetVariableRequest& request, const Partition& cut) {
  const std::vector<std::int64_t> sizes = part_sizes(cut.shape[axis_of(cut)], num_parts(cut));
  const bool makes = reuse_in_force(scope) != Reuse::kYes && !graph.store().partition(request.name);
  std::vector<at::Tensor> firsts;
  if (makes) firsts = first_values(graph.store(), request, cut, sizes);
  std::vector<Variable> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    parts.push_back(fetch(graph, scope, part_request(request, cut, sizes, i, firsts)));
  }
  if (makes) graph.store().keep_partition(request.name, cut);
  return {request.name, std::move(parts), static_cast<std::int64_t>(axis_of(cut))};
}

}  // namespace brigade::variables
