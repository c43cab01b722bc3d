#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace brigade::train {

/// Options of a `Loss` that is chosen by its name.
struct NamedLossOptions {
  /// Whether predictions are logits or, as by default in Keras, probabilities: the model then ends
  /// with a softmax or a sigmoid. It affects cross entropies only.
  bool from_logits = false;
};

/// The loss of a `Model`: one of Keras's losses by name, or a function of labels and predictions.
///
///   Loss("mse");
///   Loss("sparse_categorical_crossentropy", {.from_logits = true});
///   Loss([](const at::Tensor& labels, const at::Tensor& predictions) { return ...; });
///
/// Thread-safety: a value; a call is as thread-safe as the function.
class Loss {
 public:
  using Function = std::function<at::Tensor(const at::Tensor& labels, const at::Tensor& outputs)>;

  /// By name as in Keras: "sparse_categorical_crossentropy", "categorical_crossentropy",
  /// "binary_crossentropy", "mean_squared_error" ("mse"), "mean_absolute_error" ("mae"), or the
  /// names of their classes ("MeanSquaredError"). Throws kInvalidArgument, with the nearest name
  /// and all names, for an unknown name.
  Loss(const char* name) : Loss(std::string(name)) {}
  Loss(const std::string& name, const NamedLossOptions& options = {});
  /// `function` returns one value per example, [N], or their mean, a scalar. Prefer one value per
  /// example: it is exact for any split of the batch.
  template <std::invocable<const at::Tensor&, const at::Tensor&> UserFunction>
  Loss(UserFunction function) : name_("function"), function_(std::move(function)) {}

  /// The loss of a per-replica batch: one value per example, or a scalar.
  at::Tensor operator()(const at::Tensor& labels, const at::Tensor& predictions) const {
    return function_(labels, predictions);
  }
  /// The canonical name; "function" for a function.
  const std::string& name() const { return name_; }

  bool takes_probabilities() const { return expected_ != Expected::kAnything; }
  /// Describes the problem if `predictions` are not the probabilities that this loss expects; empty
  /// if there is none.
  std::string prediction_problem(const at::Tensor& predictions) const;

 private:
  enum class Expected { kAnything, kEachInRange, kDistribution };
  std::string name_;
  Function function_;
  Expected expected_ = Expected::kAnything;
};

/// The names of all losses in snake case.
std::vector<std::string> loss_names();

}  // namespace brigade::train
