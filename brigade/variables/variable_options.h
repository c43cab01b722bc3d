#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "brigade/variables/initializer.h"
#include "brigade/variables/partitioner.h"
#include "brigade/variables/variable.h"

namespace brigade::variables {

/// Maps a variable's value to a scalar that is added to the loss, for example
/// `layers::l2_regularizer(1e-4)`. Empty: none.
using Regularizer = std::function<at::Tensor(const at::Tensor& value)>;

/// The options of `get_variable` apart from name and shape. Unset options come from the open
/// variable scope, and then from the defaults described here.
struct VariableOptions {
  /// Default: the scope's, else float32.
  std::optional<at::ScalarType> dtype = std::nullopt;
  /// Default: the scope's, else Glorot uniform for floating variables and zeros for others.
  Initializer initializer = {};
  /// Called by `get_regularization_losses`. Stored when the variable is created, so it counts once
  /// even if several towers use the variable. Default: the scope's.
  Regularizer regularizer = {};
  /// Default: true; false for variables that are synchronized on read.
  std::optional<bool> trainable = std::nullopt;
  /// The names of the variable's collections. Default: `kGlobalVariables`. A trainable variable is
  /// in `kTrainableVariables` in any case.
  std::optional<std::vector<std::string>> collections = std::nullopt;
  /// The name of a device that caches a copy for reads, so that the variable is copied once per
  /// step. Default: the scope's, else the device that reads it.
  std::optional<std::string> caching_device = std::nullopt;
  /// How to partition it; see `get_partitioned_variable`. Default: the scope's.
  Partitioner partitioner = {};
  /// See `VariableSpec::memory_format`. Default: contiguous. It counts when the variable is
  /// created.
  std::optional<at::MemoryFormat> memory_format = std::nullopt;
  /// How the components on the devices agree, and how they are combined when the variable is read
  /// outside of replicas. TensorFlow: the arguments of the same names.
  Synchronization synchronization = Synchronization::kAuto;
  Aggregation aggregation = Aggregation::kNone;
};

/// Calls the next getter; the last one is `get_variable` itself.
struct GetVariableRequest;
using VariableGetter = std::function<Variable(const GetVariableRequest&)>;

/// A request to the custom getters, which may change it.
struct GetVariableRequest {
  std::string name;  ///< including the scope's
  std::optional<std::vector<std::int64_t>> shape;
  VariableOptions options;
  /// Of a partition: it counts only if getters keep the name.
  std::optional<VariableSlice> slice = std::nullopt;
};

/// Intercepts calls of `get_variable`: it may rename, replace, wrap or observe variables. With
/// nested scopes the inner getter is called first, and the outer one is its `getter`.
using CustomGetter =
    std::function<Variable(const VariableGetter& getter, const GetVariableRequest& request)>;

}  // namespace brigade::variables
