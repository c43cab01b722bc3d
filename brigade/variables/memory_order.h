#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

/// In which order a variable has its elements in memory. Storage, optimizers and reductions work on
/// flat ranges of memory, element by element, so they do not ask for it; what reads or writes a
/// variable by its shape (files, hashes, `assign`) gets tensors with the variable's strides.
///
/// "In memory order" means a contiguous tensor whose elements are in the order of the variable's
/// memory. A kernel [out, in, height, width] in channels-last order is [out, height, width, in].
///
/// Thread-safety: pure functions.
namespace brigade::variables {

/// `format` for tensors of this shape; kContiguous where the order of the elements is the same in
/// both, as in kernels of 1 x 1 or of one input channel.
at::MemoryFormat effective_format(at::IntArrayRef shape, at::MemoryFormat format);

/// `value` in memory order: an alias if it has the strides of `format`, otherwise a copy. Autograd
/// does not see it: pass values without a graph.
at::Tensor in_memory_order(const at::Tensor& value, at::MemoryFormat format);

/// The shape of what `in_memory_order` returns for values of this shape.
std::vector<std::int64_t> shape_in_memory(at::IntArrayRef shape, at::MemoryFormat format);

/// An alias of `elements`, which are in memory order and contiguous (of any shape), in `shape`:
/// with the strides of `format`.
at::Tensor from_memory_order(const at::Tensor& elements, at::IntArrayRef shape,
                             at::MemoryFormat format);

}  // namespace brigade::variables
