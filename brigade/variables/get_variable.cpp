#include "brigade/variables/get_variable.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <numeric>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::variables {

Variable get_variable(const std::string& name,
                      const std::optional<std::vector<std::int64_t>>& shape,
                      const VariableOptions& options) {
  Graph& graph = require_graph("get_variable");
  const VariableScope scope = get_variable_scope();
  const GetVariableRequest request = make_request(scope, name, shape, options);
  const std::optional<Partition> cut = partition_in_force(graph.store(), scope, request);
  if (!cut) return fetch(graph, scope, request);
  check_state(num_parts(*cut) == 1, "Variable '", request.name, "' is split into ", num_parts(*cut),
              " partitions and is not a single variable: use get_partitioned_variable, or "
              "get_value for its value.");
  return fetch_parts(graph, scope, request, *cut).parts().front();
}

namespace {

using base::str_cat;

/// The request for partition `part`: created with its initial value, or, without one, found.
GetVariableRequest part_request(const GetVariableRequest& whole, const Partition& cut,
                                const std::vector<std::int64_t>& sizes, std::size_t part,
                                const std::vector<at::Tensor>& first_values) {
  GetVariableRequest request = whole;
  request.name = str_cat(partition_prefix(whole.name), part);
  request.slice = {
      .whole = whole.name,
      .shape = cut.shape,
      .axis = static_cast<std::int64_t>(axis_of(cut)),
      .offset = std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(part),
                                std::int64_t{0})};
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

void check_as_before(const std::string& name, const Partition& cut, const Partition& before) {
  check_argument(cut == before, "Variable '", name, "' is requested with shape ",
                 at::IntArrayRef(cut.shape), " split into ", at::IntArrayRef(cut.counts),
                 " partitions, but it was created with shape ", at::IntArrayRef(before.shape),
                 " split into ", at::IntArrayRef(before.counts), ".");
}

[[noreturn]] void refuse_existing_partitions(const std::string& name) {
  throw Error(ErrorCode::kAlreadyExists, "Variable '", name,
              "' already exists as a partitioned variable, and its scope creates variables: open "
              "the scope with Reuse::kYes or Reuse::kAuto.");
}

/// Without a partitioner: as the existing variable, if the shape is the same.
Partition as_before(const GetVariableRequest& request, const OptionalShape& shape,
                    const Partition& before) {
  Partition asked = before;
  if (shape) asked.shape = *shape;
  check_as_before(request.name, asked, before);
  return before;
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

std::optional<Partition> partition_in_force(const VariableStore& store, const VariableScope& scope,
                                            const GetVariableRequest& request) {
  const Partitioner& partitioner = request.options.partitioner;
  const std::optional<Partition> before = store.partition(request.name);
  if (!partitioner && !before) return std::nullopt;
  const OptionalShape shape = check_initializer(request);
  if (!before && shape && shape->empty()) return std::nullopt;  // a scalar cannot be split
  if (before && reuse_in_force(scope) == Reuse::kNo) refuse_existing_partitions(request.name);
  if (before && (!partitioner || !shape)) return as_before(request, shape, *before);
  check_argument(
      !store.find(request.name), "Variable '", request.name,
      "' was created without partitions, but there is a partitioner: request it without one.");
  check_argument(shape.has_value(), "Variable '", request.name,
                 "' is to be partitioned, but its shape is not known: give a shape.");
  Partition cut{.shape = *shape, .counts = partitioner(*shape, *request.options.dtype)};
  check_counts(request.name, cut);
  if (before) check_as_before(request.name, cut, *before);
  return cut;
}

void check_counts(const std::string& name, const Partition& cut) {
  const bool makes_sense =
      cut.counts.size() == cut.shape.size() &&
      std::ranges::all_of(cut.counts, [](std::int64_t parts) { return parts >= 1; }) &&
      std::ranges::count_if(cut.counts, [](std::int64_t parts) { return parts > 1; }) <= 1;
  check_argument(makes_sense, "The partitioner of variable '", name, "' of shape ",
                 at::IntArrayRef(cut.shape), " returned ", at::IntArrayRef(cut.counts),
                 ": expected one positive number for each axis, at most one of them above 1.");
}

std::size_t axis_of(const Partition& cut) {
  const auto axis = std::ranges::find_if(cut.counts, [](std::int64_t parts) { return parts > 1; });
  return axis == cut.counts.end() ? 0 : static_cast<std::size_t>(axis - cut.counts.begin());
}

std::int64_t num_parts(const Partition& cut) {
  return cut.counts[axis_of(cut)];
}

}  // namespace brigade::variables
