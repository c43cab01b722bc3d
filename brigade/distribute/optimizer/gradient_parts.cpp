#include "brigade/distribute/optimizer/gradient_parts.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <utility>

#include "brigade/comm/local/reduce_kernel.h"

namespace brigade::distribute {

namespace {

bool is_alone(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

/// Undefined ones count as zero.
at::Tensor add_two(at::Tensor left, at::Tensor right) {
  if (!right.defined()) return left;
  if (!left.defined()) return right;
  if (is_alone(left)) return left.add_(right);
  if (is_alone(right)) return right.add_(left);
  return left.add(right);
}

at::Tensor add_in_pairs(std::vector<at::Tensor> parts, const comm::ReductionTree& tree) {
  std::vector<at::Tensor> stack;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    stack.push_back(std::move(parts[part]));
    for (int i = 0; i < tree.additions_after(part); ++i) {
      at::Tensor right = std::move(stack.back());
      stack.pop_back();
      stack.back() = add_two(std::move(stack.back()), std::move(right));
    }
  }
  return std::move(stack.front());
}

/// Where their sum in one pass over memory is made: in the first part that is defined, if nobody
/// else has it, since a block of it is read before a block of the sum is written.
at::Tensor memory_of_sum(const std::vector<at::Tensor>& parts) {
  const at::Tensor& first = *std::ranges::find_if(parts, &at::Tensor::defined);
  return is_alone(first) ? first : at::empty_like(first);
}

void add_range(const std::vector<at::Tensor>& parts, const comm::ReductionTree& tree,
               std::int64_t begin, std::int64_t end, const at::Tensor& sum) {
  constexpr std::int64_t kGrain = 32 * 1024;
  at::parallel_for(begin, end, kGrain, [&](std::int64_t from, std::int64_t to) {
    comm::add_by_tree(parts, tree, from, to, sum, from);
  });
}

/// One of them is defined.
bool are_added_at_once(const std::vector<at::Tensor>& parts) {
  const at::Tensor& first = *std::ranges::find_if(parts, &at::Tensor::defined);
  return first.is_cpu() &&
         (first.scalar_type() == at::kFloat || first.scalar_type() == at::kDouble);
}

/// At least two of them are defined.
at::Tensor sum_of_values(std::vector<at::Tensor> parts, const comm::ReductionTree& tree) {
  if (!are_added_at_once(parts)) return add_in_pairs(std::move(parts), tree);
  const at::Tensor sum = memory_of_sum(parts);
  add_range(parts, tree, 0, sum.numel(), sum);
  return sum;
}

at::Tensor value_of(variables::GradientPart part) {
  return part.deferred ? part.deferred->compute().contiguous() : std::move(part.value);
}

/// Undefined if the layer that made `deferred` does not know how.
at::Tensor sum_without_products(const variables::DeferredGradient& deferred,
                                std::span<const variables::GradientPart> parts,
                                const comm::ReductionTree& tree) {
  const auto own = std::ranges::find_if(parts, [](const variables::GradientPart& part) {
    return part.value.defined() && is_alone(part.value);
  });
  const at::Tensor sum =
      own != parts.end() ? own->value
                         : at::empty(deferred.variable().sizes(), deferred.variable().options());
  return deferred.try_sum(parts, tree, sum) ? sum : at::Tensor();
}

}  // namespace

ReplicaGradients to_parts(std::vector<at::Tensor> values) {
  ReplicaGradients parts;
  for (at::Tensor& value : values) parts.push_back({.value = std::move(value)});
  return parts;
}

std::vector<at::Tensor> values_of(const ReplicaGradients& gradients) {
  std::vector<at::Tensor> values;
  for (const variables::GradientPart& part : gradients) values.push_back(part.value);
  return values;
}

std::vector<at::Tensor> computed(ReplicaGradients gradients) {
  std::vector<at::Tensor> values;
  for (variables::GradientPart& part : gradients) values.push_back(value_of(std::move(part)));
  return values;
}

// Elements: an addition of several sets takes about a millisecond, and a set of less is not worth
// waking a thread.
constexpr std::int64_t kPiece = 512 * 1024;
constexpr std::int64_t kLine = 64;  // whole cache lines

SumInPieces::SumInPieces(std::vector<variables::GradientPart> parts, comm::ReductionTree tree)
    : tree_(std::move(tree)) {
  const auto values = std::ranges::count_if(
      parts, [](const variables::GradientPart& part) { return part.value.defined(); });
  const auto deferred = std::ranges::count_if(
      parts, [](const variables::GradientPart& part) { return part.deferred != nullptr; });
  if (values >= 2 && deferred == 0) {
    values_ = computed(std::move(parts));
    const at::Tensor& first = *std::ranges::find_if(values_, &at::Tensor::defined);
    pieces_ = are_added_at_once(values_)
                  ? static_cast<int>(std::max<std::int64_t>(1, first.numel() / kPiece))
                  : 1;
    if (pieces_ > 1) {
      sum_ = memory_of_sum(values_);
      return;
    }
    parts = to_parts(std::exchange(values_, {}));
  }
  parts_ = std::move(parts);
}

void SumInPieces::make(int piece) {
  if (pieces_ == 1) {
    sum_ = sum_of_parts(std::move(parts_), tree_);
    return;
  }
  const std::int64_t elements = sum_.numel();
  const auto begin_of = [&](int number) {
    return number == pieces_ ? elements : number * (elements / pieces_ / kLine) * kLine;
  };
  add_range(values_, tree_, begin_of(piece), begin_of(piece + 1), sum_);
}

at::Tensor sum_of_parts(std::vector<variables::GradientPart> parts,
                        const comm::ReductionTree& tree) {
  const auto is_present = &variables::GradientPart::is_defined;
  const auto first = std::ranges::find_if(parts, is_present);
  if (first == parts.end()) return {};
  if (std::ranges::count_if(parts, is_present) == 1) return value_of(std::move(*first));
  const auto deferred = std::ranges::find_if(
      parts, [](const variables::GradientPart& part) { return part.deferred != nullptr; });
  if (deferred != parts.end()) {
    const at::Tensor sum = sum_without_products(*deferred->deferred, parts, tree);
    if (sum.defined()) return sum;
  }
  return sum_of_values(computed(std::move(parts)), tree);
}

}  // namespace brigade::distribute
