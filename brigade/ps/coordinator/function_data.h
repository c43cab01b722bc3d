#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/state_tree.h"

namespace brigade::ps {

/// The arguments, or the result, of a function that a ClusterCoordinator schedules: plain values
/// and tensors.
///
/// Thread-safety: a value; copies share the tensors' memory.
struct FunctionData {
  io::StateTree values = {};  ///< without arrays: these are tensors
  std::vector<checkpoint::NamedTensor> tensors = {};

  /// The tensor of this name. Throws kNotFound, naming those that exist.
  const at::Tensor& tensor(std::string_view name) const;
};

/// Adds another function's result to the arguments of a function: its values as `values[name]`, its
/// tensors as "<name>/<tensor>". Throws kInvalidArgument, and changes nothing, for a name that is
/// empty or that a value has already.
void add_input(FunctionData& arguments, const std::string& name, const FunctionData& input);

/// With copies of the tensors on the CPU, which share no memory with those of `data`: what is
/// scheduled does not change with the caller's tensors. Throws kInvalidArgument, naming the tensor
/// and `what`, for one that is undefined, not dense, or of a dtype that files do not have.
FunctionData sendable_copy(const FunctionData& data, std::string_view what);

}  // namespace brigade::ps
