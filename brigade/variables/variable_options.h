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

/// Turns a variable's value into a scalar to be added to the loss, for example
/// `layers::l2_regularizer(1e-4)`. Empty: none.
using Regularizer = std::function<at::Tensor(const at::Tensor& value)>;

/// Everything that `get_variable` may be told of a variable beside its name and shape. What is left
/// unset comes from the open variable scope, and then from the defaults named here.
struct VariableOptions {
  /// Default: the scope's, else float32.
  std::optional<at::ScalarType> dtype = std::nullopt;
  /// Default: the scope's, else Glorot uniform for floating variables and zeros for others.
  Initializer initializer = {};
  /// Called for `get_regularization_losses`; remembered when the variable is created, once, however
  /// many towers use it. Default: the scope's.
  Regularizer regularizer = {};
  /// Default: kYes, and kNo for variables that are synchronized on read.
  std::optional<Trainable> trainable = std::nullopt;
  /// Names of collections to be in. Default: `kGlobalVariables`. A trainable variable is in
  /// `kTrainableVariables` in any case.
  std::optional<std::vector<std::string>> collections = std::nullopt;
  /// Where reads keep a copy, so that the variable travels once a step: a device name. Default: the
  /// scope's, else wherever it is read.
  std::optional<std::string> caching_device = std::nullopt;
  /// How to cut it; see `get_partitioned_variable`. Default: the scope's.
  Partitioner partitioner = {};
  Synchronization synchronization = Synchronization::kAuto;
  Aggregation aggregation = Aggregation::kNone;
};

/// Calls the next getter, at last `get_variable`'s own.
struct GetVariableRequest;
using VariableGetter = std::function<Variable(const GetVariableRequest&)>;

/// A request on its way through the custom getters, which may change it.
struct GetVariableRequest {
  std::string name;  ///< with the scope's
  std::optional<std::vector<std::int64_t>> shape;
  VariableOptions options;
};

/// Stands between the callers of `get_variable` and the store: may rename, replace, wrap or watch.
/// Of nested scopes the inner getter is called first, and the outer one is its `getter`.
using CustomGetter =
    std::function<Variable(const VariableGetter& getter, const GetVariableRequest& request)>;

}  // namespace brigade::variables
