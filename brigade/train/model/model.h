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
#include "brigade/train/model/compile_options.h"
#include "brigade/train/model/fit_options.h"
#include "brigade/train/callbacks/history.h"
#include "brigade/train/model/labeled_data.h"
#include "brigade/train/model/network.h"
#include "brigade/variables/mode.h"

namespace brigade::train {

struct EvaluateOptions {
  /// Of all replicas together, for data in tensors only. Default: 32.
  std::optional<std::int64_t> batch_size = std::nullopt;
  /// Batches. Default: all.
  std::optional<std::int64_t> steps = std::nullopt;
};

/// A function of layers that is told what it computes for: `models::Sequential`, or one of your
/// own.
template <class Function>
concept LayerFunction =
    std::is_invocable_r_v<at::Tensor, const Function&, const at::Tensor&, variables::Mode>;

/// A network together with what trains it, under any strategy: the short way, for programs that
/// need no training loop of their own. Keras: Model.
///
///   Model model(strategy, models::Sequential({...}));
///   model.compile({.optimizer = "adam", .loss = "sparse_categorical_crossentropy",
///                  .metrics = {"accuracy"}});
///   History history = model.fit(train, {.epochs = 5, .validation_data = test});
///   Logs results = model.evaluate(test);
///
/// Variables are made at the first data. All figures are exact means over examples, whatever the
/// number of replicas and however uneven the shares. Steps are run by a
/// `MonitoredTrainingSession`, which `FitOptions::session` sets up.
///
/// Thread-safety: one thread, outside of replicas.
class Model {
 public:
  /// In the strategy whose scope is open, or else on one device. The strategy must outlive the
  /// model.
  template <LayerFunction Function>
  explicit Model(Function function, std::string name = "")
      : Model(nullptr, internal::source_of_function(std::move(function)), std::move(name)) {}
  /// `name`, if given, stands before the names of the variables: two models of the same layers in
  /// one strategy need it.
  template <LayerFunction Function>
  Model(distribute::Strategy& strategy, Function function, std::string name = "")
      : Model(&strategy, internal::source_of_function(std::move(function)), std::move(name)) {}
  /// A model around a torch::nn::Module with `at::Tensor forward(at::Tensor)`, from a function that
  /// returns a new `std::shared_ptr` to one.
  template <class Factory>
  static Model from_module(distribute::Strategy& strategy, Factory factory, std::string name = "") {
    return Model(&strategy, internal::source_of_module(std::move(factory)), std::move(name));
  }
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  /// How to train. May be called again: the variables stay, the optimizer begins anew. Throws
  /// kInvalidArgument, naming the nearest, for unknown names.
  void compile(const CompileOptions& options);

  /// Trains. Throws kFailedPrecondition before `compile`, kInvalidArgument for options without
  /// meaning and for data that does not fit the layers, and what a callback or a hook throws.
  History fit(const LabeledData& data, const FitOptions& options = {});

  /// "loss" and the metrics over all of `data`. Throws as `fit`.
  Logs evaluate(const LabeledData& data, const EvaluateOptions& options = {});

  /// What the network says of each example, in their order, on the CPU. Needs no `compile`.
  at::Tensor predict(const at::Tensor& features, const EvaluateOptions& options = {});
  at::Tensor predict(const data::Dataset<at::Tensor>& batches, const EvaluateOptions& options = {});
  /// The labels are ignored.
  at::Tensor predict(const LabeledData& data, const EvaluateOptions& options = {});

  /// Makes the variables, if there are none, from the shape of one example without the number of
  /// examples.
  void build(const std::vector<std::int64_t>& input_shape);

  /// A table for people: layers, shapes, numbers of parameters; of a model that does not tell its
  /// layers, variables. Throws kFailedPrecondition if the shapes are not known yet.
  std::string summary() const;

  distribute::Strategy& strategy() const;
  /// Throws kFailedPrecondition before they are made.
  std::span<const variables::Variable> variables() const;
  /// Steps trained, over all fits.
  std::int64_t global_step() const;

 private:
  struct Impl;
  Model(distribute::Strategy* strategy, internal::NetworkSource source, std::string name);
  std::unique_ptr<Impl> impl_;
};

}  // namespace brigade::train
