#include "brigade/ps/variable_parts.h"

#include "brigade/base/strings.h"
#include "brigade/variables/get_variable.h"

namespace brigade::ps {

namespace {

VariablePart whole_of(const variables::Variable& variable, std::size_t index) {
  return {.name = variable.name(), .variable = index, .shape = variable.shape().vec()};
}

void add_parts(const variables::Variable& variable, std::size_t index,
               const variables::Partition& cut, std::vector<VariablePart>& parts) {
  const std::size_t axis = variables::axis_of(cut);
  VariablePart part = whole_of(variable, index);
  part.axis = static_cast<std::int64_t>(axis);
  part.is_whole = false;
  int number = 0;
  for (const std::int64_t size :
       variables::part_sizes(cut.shape[axis], variables::num_parts(cut))) {
    part.name = base::str_cat(variable.name(), "/part_", number++);
    part.shape[axis] = size;
    parts.push_back(part);
    part.begin += size;
  }
}

}  // namespace

at::Tensor VariablePart::of(const at::Tensor& whole) const {
  if (is_whole || !whole.defined()) return whole;
  return whole.narrow(axis, begin, shape[static_cast<std::size_t>(axis)]);
}

std::vector<VariablePart> parts_of(std::span<const variables::Variable> variables,
                                   const variables::Partitioner& partitioner) {
  std::vector<VariablePart> parts;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const variables::Variable& variable = variables[i];
    const bool is_divisible = partitioner && !variable.slice() && !variable.shape().empty();
    variables::Partition cut{.shape = variable.shape().vec(), .counts = {}};
    if (is_divisible) {
      cut.counts = partitioner(variable.shape(), variable.dtype());
      variables::check_counts(variable.name(), cut);
    }
    if (is_divisible && variables::num_parts(cut) > 1) {
      add_parts(variable, i, cut, parts);
    } else {
      parts.push_back(whole_of(variable, i));
    }
  }
  return parts;
}

}  // namespace brigade::ps
