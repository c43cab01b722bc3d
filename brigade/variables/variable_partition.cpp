#include "brigade/variables/variable_partition.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::variables {

namespace {

using base::str_cat;

void check_counts(const std::string& name, const Partition& cut) {
  const bool makes_sense =
      cut.counts.size() == cut.shape.size() &&
      std::ranges::all_of(cut.counts, [](std::int64_t parts) { return parts >= 1; }) &&
      std::ranges::count_if(cut.counts, [](std::int64_t parts) { return parts > 1; }) <= 1;
  check_argument(makes_sense,
                 str_cat("The partitioner of variable '", name, "' of shape ",
                         at::IntArrayRef(cut.shape), " returned ", at::IntArrayRef(cut.counts),
                         ": expected one positive number for each axis, at most one of them above "
                         "1."));
}

void check_as_before(const std::string& name, const Partition& cut, const Partition& before) {
  check_argument(
      cut == before,
      str_cat("Variable '", name, "' is requested with shape ", at::IntArrayRef(cut.shape),
              " split into ", at::IntArrayRef(cut.counts),
              " partitions, but it was created with shape ", at::IntArrayRef(before.shape),
              " split into ", at::IntArrayRef(before.counts), "."));
}

[[noreturn]] void refuse_existing(const std::string& name) {
  throw Error(ErrorCode::kAlreadyExists, str_cat("Variable '", name,
                                                 "' already exists as a partitioned variable, and "
                                                 "its scope creates variables: open the scope "
                                                 "with Reuse::kYes or Reuse::kAuto."));
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

std::optional<Partition> partition_in_force(const VariableStore& store, const VariableScope& scope,
                                            const GetVariableRequest& request) {
  const Partitioner& partitioner = request.options.partitioner;
  const std::optional<Partition> before = store.partition(request.name);
  if (!partitioner && !before) return std::nullopt;
  const OptionalShape shape = check_initializer(request);
  if (!before && shape && shape->empty()) return std::nullopt;  // a scalar cannot be split
  if (before && reuse_in_force(scope) == Reuse::kNo) refuse_existing(request.name);
  if (before && (!partitioner || !shape)) return as_before(request, shape, *before);
  check_argument(
      !store.find(request.name),
      str_cat(
          "Variable '", request.name,
          "' was created without partitions, but there is a partitioner: request it without one."));
  check_argument(shape.has_value(),
                 str_cat("Variable '", request.name,
                         "' is to be partitioned, but its shape is not known: give a shape."));
  Partition cut{.shape = *shape, .counts = partitioner(*shape, *request.options.dtype)};
  check_counts(request.name, cut);
  if (before) check_as_before(request.name, cut, *before);
  return cut;
}

std::size_t axis_of(const Partition& cut) {
  const auto axis = std::ranges::find_if(cut.counts, [](std::int64_t parts) { return parts > 1; });
  return axis == cut.counts.end() ? 0 : static_cast<std::size_t>(axis - cut.counts.begin());
}

std::int64_t num_parts(const Partition& cut) {
  return cut.counts[axis_of(cut)];
}

}  // namespace brigade::variables
