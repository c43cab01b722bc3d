#include "brigade/variables/variable_slices.h"

#include <ATen/ops/cat.h>

#include <algorithm>

namespace brigade::variables {

namespace {

using Indices = std::vector<std::size_t>;

/// Whether partitions in the order of their offsets cover the whole variable, each part once.
bool cover_the_whole(std::span<const Variable> variables, const Indices& parts) {
  const VariableSlice& first = *variables[parts.front()].slice();
  std::int64_t end = 0;
  for (const std::size_t i : parts) {
    const VariableSlice& slice = *variables[i].slice();
    if (slice.shape != first.shape || slice.axis != first.axis || slice.offset != end) return false;
    end += variables[i].shape()[static_cast<std::size_t>(slice.axis)];
  }
  return end == first.shape[static_cast<std::size_t>(first.axis)];
}

}  // namespace

std::map<std::string, Indices> joined_slices(std::span<const Variable> variables) {
  std::map<std::string, Indices> wholes;
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (variables[i].slice()) wholes[variables[i].slice()->whole].push_back(i);
  for (auto& [name, parts] : wholes)
    std::ranges::stable_sort(parts, {},
                             [&](std::size_t i) { return variables[i].slice()->offset; });
  std::erase_if(wholes, [&](const auto& each) {
    const auto has_its_name = [&](const Variable& other) { return other.name() == each.first; };
    return std::ranges::any_of(variables, has_its_name) || !cover_the_whole(variables, each.second);
  });
  return wholes;
}

at::Tensor join_slices(std::span<const at::Tensor> parts, const VariableSlice& slice) {
  std::vector<at::Tensor> there;
  for (const at::Tensor& part : parts) there.push_back(part.to(parts.front().device()));
  return at::cat(there, slice.axis);
}

at::Tensor part_of_whole(const at::Tensor& whole, const VariableSlice& slice, std::int64_t size) {
  return whole.narrow(slice.axis, slice.offset, size);
}

}  // namespace brigade::variables
