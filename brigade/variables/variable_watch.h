#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "brigade/variables/variable.h"
#include "brigade/variables/variable_store.h"

namespace brigade::variables {

/// Finds out which variables a part of a forward pass changes besides its results: moving
/// statistics, counters. It sees variables that are not trained, in the calling replica, and
/// changes that libtorch's version counters see: all but the running statistics of libtorch's own
/// batch norm (see `device::ReplayScope`).
///
/// Thread-safety: one thread.
class VariableWatch {
 public:
  /// Begins to watch the variables of `store`, which must outlive it.
  explicit VariableWatch(const VariableStore& store);
  /// Those that were changed, or made, since.
  std::vector<Variable> changed() const;

 private:
  const VariableStore& store_;
  std::vector<Variable> variables_;
  std::vector<std::uint32_t> versions_;
};

/// The values of some variables in the calling replica.
///
/// Thread-safety: one thread.
class KeptValues {
 public:
  /// Copies the values.
  explicit KeptValues(std::vector<Variable> variables);
  /// Gives the variables these values again.
  void restore() const;

 private:
  std::vector<Variable> variables_;
  std::vector<at::Tensor> values_;
};

}  // namespace brigade::variables
