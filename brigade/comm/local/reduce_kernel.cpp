#include "brigade/comm/local/reduce_kernel.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "brigade/base/vector_clones.h"

namespace brigade::comm {

namespace {

// The order of additions per element is fixed, so all versions give the same bits.
BRIGADE_VECTOR_CLONES
void add_two(const float* a, const float* b, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

BRIGADE_VECTOR_CLONES
void add_two(const double* a, const double* b, double* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

/// Evaluates a tree block by block, so that the blocks of all partial sums stay in the first-level
/// cache. `load(part, begin, count, memory)` returns the elements of a part from `begin`, which it
/// may write to `memory`; null: the part adds nothing. Partial sums at the bottom of the stack are
/// made in the output itself.
template <class Scalar>
class TreeSum {
 public:
  TreeSum(const ReductionTree& tree, std::int64_t block)
      : tree_(tree),
        block_(block),
        stack_(static_cast<std::size_t>(tree.stack_size())),
        partial_sums_(std::make_unique_for_overwrite<Scalar[]>(
            static_cast<std::size_t>(block * (tree.stack_size() - 1)))) {}

  template <class Load>
  void add(std::int64_t begin, std::int64_t end, Scalar* out, const Load& load) {
    for (std::int64_t at = begin; at < end; at += block_) {
      const std::int64_t count = std::min(block_, end - at);
      add_block(at, count, out + (at - begin), load);
    }
  }

 private:
  template <class Load>
  void add_block(std::int64_t begin, std::int64_t count, Scalar* out, const Load& load) {
    std::size_t size = 0;
    for (std::size_t part = 0; part < tree_.parts().size(); ++part) {
      stack_[size] = load(part, begin, count, memory_of(size, out));
      ++size;
      for (int i = 0; i < tree_.additions_after(part); ++i) add_last_two(--size, count, out);
    }
    const Scalar* sum = stack_.front();
    if (sum == nullptr) {
      std::fill_n(out, count, Scalar{-0.0});
    } else if (sum != out) {
      std::copy_n(sum, count, out);
    }
  }

  /// Of a stack with the positions 0 to `last`.
  void add_last_two(std::size_t last, std::int64_t count, Scalar* out) {
    const Scalar*& left = stack_[last - 1];
    const Scalar* right = stack_[last];
    Scalar* const memory = memory_of(last - 1, out);
    if (right == nullptr) return;
    if (left != nullptr) {
      add_two(left, right, memory, count);
      left = memory;
    } else if (right == memory_of(last, out)) {  // which the next part gets
      std::copy_n(right, count, memory);
      left = memory;
    } else {
      left = right;
    }
  }

  Scalar* memory_of(std::size_t position, Scalar* out) const {
    return position == 0 ? out
                         : partial_sums_.get() + static_cast<std::int64_t>(position - 1) * block_;
  }

  const ReductionTree& tree_;
  const std::int64_t block_;
  std::vector<const Scalar*> stack_;  // null: no input adds anything
  const std::unique_ptr<Scalar[]> partial_sums_;
};

/// So that the blocks of a few partial sums and of an input fit in 32 KiB.
constexpr std::int64_t kBlockBytes = 8 * 1024;
/// Half and bfloat16 are converted by libtorch, whose calls cost more than a small block.
constexpr std::int64_t kWidenedBlock = 16 * 1024;

template <class Scalar>
void add_raw(std::span<const at::Tensor> inputs, const ReductionTree& tree, std::int64_t begin,
             std::int64_t end, Scalar* out) {
  const std::int64_t block = std::clamp<std::int64_t>(
      end - begin, 1, kBlockBytes / static_cast<std::int64_t>(sizeof(Scalar)));
  TreeSum<Scalar>(tree, block)
      .add(begin, end, out, [&](std::size_t part, std::int64_t at, std::int64_t, Scalar*) {
        return inputs[part].defined() ? inputs[part].const_data_ptr<Scalar>() + at : nullptr;
      });
}

/// Half and bfloat16 into float32.
void add_widened(std::span<const at::Tensor> inputs, const ReductionTree& tree, std::int64_t begin,
                 std::int64_t end, float* out) {
  const std::int64_t block = std::clamp<std::int64_t>(end - begin, 1, kWidenedBlock);
  TreeSum<float>(tree, block)
      .add(begin, end, out,
           [&](std::size_t part, std::int64_t at, std::int64_t count,
               float* memory) -> const float* {
             if (!inputs[part].defined()) return nullptr;
             at::from_blob(memory, {count}, at::kFloat)
                 .copy_(inputs[part].view(-1).narrow(0, at, count));
             return memory;
           });
}

bool adds(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kMean;
}

/// A tensor of an evaluation, and whether it may be written.
struct Operand {
  at::Tensor value;
  bool is_own = false;
};

at::Tensor combine_two(const at::Tensor& left, const at::Tensor& right, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return at::add(left, right);
    case ReduceOp::kMax:
      return at::maximum(left, right);
    case ReduceOp::kMin:
      return at::minimum(left, right);
  }
  return {};
}

Operand combine_operands(Operand left, Operand right, ReduceOp op) {
  if (!right.value.defined()) return left;
  if (!left.value.defined()) return right;
  if (!adds(op) || (!left.is_own && !right.is_own))
    return {.value = combine_two(left.value, right.value, op), .is_own = true};
  if (!left.is_own) std::swap(left, right);  // the order of two summands does not matter
  left.value.add_(right.value);
  return left;
}

/// The combined tensor in its accumulation dtype, before a mean is divided; undefined if all are.
Operand combine_wide(std::span<const at::Tensor> inputs, const ReductionTree& tree, ReduceOp op) {
  std::vector<Operand> operands;
  for (const at::Tensor& input : inputs) {
    const at::Tensor value = !input.defined() || !adds(op) ? input : to_accumulation_dtype(input);
    operands.push_back({.value = value, .is_own = input.defined() && !value.is_same(input)});
  }
  return tree.evaluate(std::span<const Operand>(operands), [&](Operand left, Operand right) {
    return combine_operands(std::move(left), std::move(right), op);
  });
}

void add_generic(std::span<const at::Tensor> inputs, const ReductionTree& tree, std::int64_t begin,
                 std::int64_t end, const at::Tensor& out) {
  std::vector<at::Tensor> ranges;
  for (const at::Tensor& input : inputs)
    ranges.push_back(input.defined() ? input.view(-1).narrow(0, begin, end - begin) : input);
  const Operand sum = combine_wide(ranges, tree, ReduceOp::kSum);
  if (sum.value.defined()) {
    out.copy_(sum.value);
  } else {
    out.fill_(-0.0);
  }
}

bool are_narrow(std::span<const at::Tensor> inputs) {
  const auto first = std::ranges::find_if(inputs, &at::Tensor::defined);
  return first != inputs.end() && accumulation_dtype(first->scalar_type()) != first->scalar_type();
}

ReductionTree tree_over(std::span<const at::Tensor> leaves) {
  return ReductionTree(static_cast<int>(leaves.size()));
}

}  // namespace

void add_by_tree(std::span<const at::Tensor> inputs, const ReductionTree& tree, std::int64_t begin,
                 std::int64_t end, const at::Tensor& output, std::int64_t output_begin) {
  const auto range = [&] { return output.narrow(0, output_begin, end - begin); };
  if (are_narrow(inputs)) {
    const bool is_wide = output.scalar_type() == at::kFloat;
    const at::Tensor sum =
        is_wide ? range() : at::empty({end - begin}, output.options().dtype(at::kFloat));
    add_widened(inputs, tree, begin, end, sum.mutable_data_ptr<float>());
    if (!is_wide) range().copy_(sum);
    return;
  }
  switch (output.scalar_type()) {
    case at::kFloat:
      return add_raw<float>(inputs, tree, begin, end,
                            output.mutable_data_ptr<float>() + output_begin);
    case at::kDouble:
      return add_raw<double>(inputs, tree, begin, end,
                             output.mutable_data_ptr<double>() + output_begin);
    default:
      return add_generic(inputs, tree, begin, end, range());
  }
}

void add_by_tree(std::span<const at::Tensor> inputs, std::int64_t begin, std::int64_t end,
                 const at::Tensor& output, std::int64_t output_begin) {
  add_by_tree(inputs, tree_over(inputs), begin, end, output, output_begin);
}

at::Tensor combine_by_tree(std::span<const at::Tensor> inputs, const ReductionTree& tree,
                           ReduceOp op) {
  const auto first = std::ranges::find_if(inputs, &at::Tensor::defined);
  if (first == inputs.end()) return {};
  const Operand wide = combine_wide(inputs, tree, op);
  const at::Tensor result = wide.is_own ? wide.value : wide.value.clone();
  if (op == ReduceOp::kMean) result.div_(static_cast<double>(tree.leaves()));
  return result.to(first->scalar_type());
}

at::Tensor combine_by_tree(std::span<const at::Tensor> inputs, ReduceOp op) {
  return combine_by_tree(inputs, tree_over(inputs), op);
}

void combine_range(std::span<const at::Tensor> inputs, const ReductionTree& tree, ReduceOp op,
                   std::int64_t begin, std::int64_t end, const at::Tensor& output) {
  const at::ScalarType dtype = output.scalar_type();
  if (adds(op) && (dtype == at::kFloat || dtype == at::kDouble)) {
    add_by_tree(inputs, tree, begin, end, output, 0);
    if (op == ReduceOp::kMean) output.div_(static_cast<double>(tree.leaves()));
    return;
  }
  std::vector<at::Tensor> ranges;
  for (const at::Tensor& input : inputs) ranges.push_back(input.narrow(0, begin, end - begin));
  output.copy_(combine_by_tree(ranges, tree, op));
}

at::ScalarType accumulation_dtype(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
}

at::Tensor to_accumulation_dtype(const at::Tensor& value) {
  return value.to(accumulation_dtype(value.scalar_type()));
}

AccumulationTensors::AccumulationTensors(std::span<const at::Tensor> tensors, ReduceOp op)
    : originals_(tensors) {
  const bool any_narrow = std::ranges::any_of(tensors, [](const at::Tensor& tensor) {
    return accumulation_dtype(tensor.scalar_type()) != tensor.scalar_type();
  });
  if (!adds(op) || !any_narrow) return;
  for (const at::Tensor& tensor : tensors)
    copies_.push_back(to_accumulation_dtype(tensor.detach()));
}

void AccumulationTensors::copy_back() const {
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].scalar_type() != originals_[i].scalar_type())
      originals_[i].detach().copy_(copies_[i]);
  }
}

}  // namespace brigade::comm
