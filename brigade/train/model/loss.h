#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/layers/losses.h"

namespace brigade::train {

/// What a `Model` minimizes: one of Keras's losses by name, or a function of labels and
/// predictions.
///
///   Loss("mse");
///   Loss("sparse_categorical_crossentropy", layers::losses::From::kLogits);
///   Loss([](const at::Tensor& labels, const at::Tensor& predictions) { return ...; });
///
/// Thread-safety: a value; calls as the function.
class Loss {
 public:
  using Function = std::function<at::Tensor(const at::Tensor& labels, const at::Tensor& outputs)>;

  /// By name as in Keras: "sparse_categorical_crossentropy", "categorical_crossentropy",
  /// "binary_crossentropy", "mean_squared_error" ("mse"), "mean_absolute_error" ("mae"), or their
  /// classes' ("MeanSquaredError"). Cross entropies read predictions as `from` says, by default, as
  /// Keras's, as probabilities: the model then ends with a softmax or a sigmoid. Throws
  /// kInvalidArgument, naming the nearest and all names, for an unknown one.
  Loss(const char* name) : Loss(std::string(name)) {}
  Loss(const std::string& name, layers::losses::From from = layers::losses::From::kProbabilities);
  /// One value an example, [N], or the mean of them, a scalar; the first is better: it is exact for
  /// any shares.
  template <std::invocable<const at::Tensor&, const at::Tensor&> Own>
  Loss(Own function) : name_("function"), function_(std::move(function)) {}

  /// The loss of a replica's examples: one value an example, or a scalar.
  at::Tensor operator()(const at::Tensor& labels, const at::Tensor& predictions) const {
    return function_(labels, predictions);
  }
  /// The canonical name; "function" for one of the user's own.
  const std::string& name() const { return name_; }

  bool takes_probabilities() const { return expected_ != Expected::kAnything; }
  /// What is wrong with `predictions` if they cannot be the probabilities that this loss takes them
  /// for; empty if nothing is.
  std::string prediction_problem(const at::Tensor& predictions) const;

 private:
  enum class Expected { kAnything, kEachInRange, kDistribution };
  std::string name_;
  Function function_;
  Expected expected_ = Expected::kAnything;
};

/// The losses' names in snake case.
std::vector<std::string> loss_names();

}  // namespace brigade::train
