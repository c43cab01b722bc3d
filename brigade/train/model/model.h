#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "brigade/data/dataset.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/named_tensors.h"
#include "brigade/train/callbacks/history.h"
#include "brigade/train/model/compile_options.h"
#include "brigade/train/model/fit_options.h"
#include "brigade/train/model/labeled_data.h"
#include "brigade/train/model/network.h"

namespace brigade::train {

/// Options of `Model::evaluate` and `Model::predict`.
struct EvaluateOptions {
  /// The global batch size, for data in tensors only. Default: 32.
  std::optional<std::int64_t> batch_size = std::nullopt;
  /// The number of batches. Default: all.
  std::optional<std::int64_t> steps = std::nullopt;
};

/// A network with its optimizer, loss and metrics, under any strategy: for programs that do not
/// need their own training loop. Keras: Model.
///
///   Model model(strategy, models::Sequential({...}));
///   model.compile({.optimizer = "adam", .loss = "sparse_categorical_crossentropy",
///                  .metrics = {"accuracy"}});
///   History history = model.fit(train, {.epochs = 5, .validation_data = test});
///   Logs results = model.evaluate(test);
///
/// A network may have several inputs and outputs: a function of layers, or a module's `forward`,
/// that takes or returns NamedTensors. `CompileOptions` then has losses and metrics by output:
///
///   Model model(strategy, [](const input::NamedTensors& x, variables::Mode) {
///     ...
///     return input::NamedTensors({{"main", logits}, {"aux", early_logits}});
///   });
///   model.compile({.losses = {{"main", loss}, {"aux", loss}}, .loss_weights = {{"aux", 0.4}}});
///   model.fit(images);  // the label of the images serves both outputs
///   input::NamedTensors outputs = model.predict<input::NamedTensors>(test);
///
/// The variables are created with the first data. All metrics are exact means over examples, for
/// any number of replicas and any split of batches. A `MonitoredTrainingSession` runs the steps,
/// with the options `FitOptions::session`.
///
/// Under a ParameterServerStrategy whose chief coordinates (`ChiefRole::kCoordinates`), the same
/// program runs in chief and workers, and all make the same calls of `fit` and `evaluate`. The
/// chief schedules the steps, which the workers make as they become free, each on its own part of
/// the data, which it repeats; so `steps_per_epoch` must be set. Callbacks, sessions and the
/// progress are the chief's. Evaluations are divided among the workers: each batch counts once,
/// also if a worker is lost. All processes get the same results; those of a worker that was started
/// later, of the calls that it has missed. `predict` is each process's own: the chief has the
/// variables of the last epoch. A worker whose chief has ended returns from `fit` with a
/// `stop_reason`. TensorFlow: Model.fit with a ClusterCoordinator.
///
/// Thread-safety: one thread, outside of replicas.
class Model {
 public:
  /// Under the strategy whose scope is open, or else on one device. The strategy must outlive the
  /// model.
  template <class Function>
  requires(!std::derived_from<Function, distribute::Strategy>) explicit Model(Function function,
                                                                              std::string name = "")
      : Model(nullptr, internal::source_of_function(std::move(function)), std::move(name)) {}
  /// `name`, if given, is a prefix of the names of the variables. It is needed for two models with
  /// the same layers in one strategy.
  template <class Function>
  Model(distribute::Strategy& strategy, Function function, std::string name = "")
      : Model(&strategy, internal::source_of_function(std::move(function)), std::move(name)) {}
  /// Wraps a torch::nn::Module with `at::Tensor forward(at::Tensor)`, or with NamedTensors in place
  /// of either. `factory` returns a `std::shared_ptr` to a new module.
  template <class Factory>
  static Model from_module(distribute::Strategy& strategy, Factory factory, std::string name = "") {
    return Model(&strategy, internal::source_of_module(std::move(factory)), std::move(name));
  }
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  /// Sets the optimizer, loss and metrics. Another call keeps the variables and resets the
  /// optimizer. Throws kInvalidArgument, with the nearest name, for unknown names.
  void compile(const CompileOptions& options);

  /// Trains the model. Throws kFailedPrecondition before `compile`, kInvalidArgument for invalid
  /// options and for data that does not match the layers, and the errors of callbacks and hooks.
  History fit(const LabeledData& data, const FitOptions& options = {});

  /// Returns "loss" and the metrics over all of `data`. Throws as `fit`.
  Logs evaluate(const LabeledData& data, const EvaluateOptions& options = {});

  /// The outputs of the network for all examples, in their order, on the CPU. Needs no `compile`. A
  /// network with several outputs, or with an output that has a name, returns them all as
  /// `predict<input::NamedTensors>(...)`; without it, `predict` throws kInvalidArgument for
  /// several.
  template <class Outputs = at::Tensor>
  Outputs predict(const at::Tensor& features, const EvaluateOptions& options = {}) {
    return predict<Outputs>(LabeledData::unlabeled(features), options);
  }
  template <class Outputs = at::Tensor>
  Outputs predict(const data::Dataset<at::Tensor>& batches, const EvaluateOptions& options = {}) {
    return predict<Outputs>(LabeledData::unlabeled(batches), options);
  }
  /// Of a network with several inputs.
  template <class Outputs = at::Tensor>
  Outputs predict(const input::NamedTensors& inputs, const EvaluateOptions& options = {}) {
    return predict<Outputs>(LabeledData::unlabeled(inputs), options);
  }
  template <class Outputs = at::Tensor>
  Outputs predict(const data::Dataset<input::NamedTensors>& batches,
                  const EvaluateOptions& options = {}) {
    return predict<Outputs>(LabeledData::unlabeled(batches), options);
  }
  /// Labels are ignored.
  template <class Outputs = at::Tensor>
  Outputs predict(const LabeledData& data, const EvaluateOptions& options = {}) {
    constexpr bool is_possible = TensorOrNamedTensors<Outputs>;
    static_assert(is_possible, "Model::predict returns at::Tensor or input::NamedTensors.");
    if constexpr (is_possible) {
      const input::NamedTensors outputs = predict_all(data, options);
      if constexpr (std::same_as<Outputs, input::NamedTensors>) {
        return outputs;
      } else {
        return internal::only_tensor(outputs, "The model", "outputs");
      }
    }
  }

  /// Creates the variables, if there are none yet. `input_shape` is the shape of one example,
  /// without the batch dimension.
  void build(const std::vector<std::int64_t>& input_shape);
  /// The same for a network with several inputs, from a batch of which the first examples are used.
  void build(const input::NamedTensors& inputs);

  /// A human-readable table: layers, shapes, numbers of parameters; for a model without a list of
  /// layers, its variables. Throws kFailedPrecondition if the shapes are not known yet.
  std::string summary() const;

  distribute::Strategy& strategy() const;
  /// Throws kFailedPrecondition before they are created.
  std::span<const variables::Variable> variables() const;
  /// The number of training steps, over all fits.
  std::int64_t global_step() const;

 private:
  struct Impl;
  Model(distribute::Strategy* strategy, internal::NetworkSource source, std::string name);
  input::NamedTensors predict_all(const LabeledData& data, const EvaluateOptions& options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace brigade::train
