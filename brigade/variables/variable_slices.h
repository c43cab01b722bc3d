#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "brigade/variables/variable.h"

namespace brigade::variables {

/// The partitioned variables all of whose partitions are among `variables`, by name: the indices of
/// their partitions, in order. Without those whose own name is that of another variable among them.
std::map<std::string, std::vector<std::size_t>> joined_slices(std::span<const Variable> variables);

/// The whole of consecutive partitions' tensors (values, or slots of optimizers), in their order:
/// a copy, on the first one's device.
at::Tensor join_slices(std::span<const at::Tensor> parts, const VariableSlice& slice);

/// The part of `whole`, a tensor of the shape of the whole variable, that belongs to a partition of
/// `size` elements along the axis: an alias.
at::Tensor part_of_whole(const at::Tensor& whole, const VariableSlice& slice, std::int64_t size);

}  // namespace brigade::variables
