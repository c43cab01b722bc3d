#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/layers/sliding_window.h"
#include "brigade/variables/initializer.h"
#include "brigade/variables/mode.h"
#include "brigade/variables/variable_options.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::layers {

/// The function that a layer applies to its result at the end. Empty (`nullptr`): none.
using Activation = std::function<at::Tensor(const at::Tensor& inputs)>;

/// The function that a layer applies to its result before the activation, instead of adding biases.
/// Empty: none, and biases are added. For example `batch_normalizer({.decay = 0.9997})`.
using Normalizer = std::function<at::Tensor(const at::Tensor& inputs)>;

/// max(inputs, 0): the default activation of layers. Thread-safety: pure.
at::Tensor relu(const at::Tensor& inputs);

/// `activation` of a tensor that is not used elsewhere and not needed in backward: relu is computed
/// in place. For layers.
at::Tensor activate(const Activation& activation, at::Tensor fresh);

/// When batch norm updates its moving statistics.
enum class StatisticsUpdate {
  kUpdateOps,  ///< with the optimizer's update, which calls `Graph::run_update_ops`
  kInPlace,    ///< immediately (Slim: updates_collections=None)
};

/// The examples over which batch norm computes statistics in training.
enum class BatchStatistics {
  kReplica,  ///< the calling replica's part of the batch
  /// The global batch, over all replicas and workers: any number of replicas then gives the same
  /// results as one replica with the whole batch, and the moving statistics are equal everywhere.
  /// Each pass is a collective, even for a replica without examples, and so is its backward. Keras:
  /// BatchNormalization(synchronized=True).
  kGlobal,
};

/// Every argument of a layer that an `arg_scope` can give a default for. The options of a layer
/// contain a subset of these fields, with the same names, order and meaning. Unset fields come from
/// the open argument scopes, and then from the layer's own defaults.
struct LayerArguments {
  std::optional<Size2d> stride = std::nullopt;
  std::optional<Padding> padding = std::nullopt;
  /// Whether average pooling counts the elements of the padding, as zeros.
  std::optional<bool> count_padding = std::nullopt;
  /// The distance between two elements of the window (dilation).
  std::optional<Size2d> rate = std::nullopt;
  /// In which order a convolution has its images and kernels in memory, and so its result:
  /// at::MemoryFormat::ChannelsLast is faster on GPUs in low precision, and where much is pooled on
  /// a CPU. Most layers keep the order of their inputs, so that the first convolution decides. A
  /// kernel that the layer creates is stored in this order (`variables::VariableSpec`), so that
  /// steps convert none; one that exists already stays as it is. Shapes and checkpoints are the
  /// same in any order, and values up to rounding. Slim: data_format (which changes shapes).
  std::optional<at::MemoryFormat> memory_format = std::nullopt;
  /// The probability that dropout keeps an element.
  std::optional<double> keep_prob = std::nullopt;
  /// The fraction of a moving statistic that is kept at each update.
  std::optional<double> decay = std::nullopt;
  /// Whether a normalizing layer has an offset, `beta`.
  std::optional<bool> center = std::nullopt;
  /// Whether it has a factor, `gamma`.
  std::optional<bool> scale = std::nullopt;
  /// Added to the variance.
  std::optional<double> epsilon = std::nullopt;
  /// `nullptr`: none.
  std::optional<Activation> activation = std::nullopt;
  /// `nullptr`: none. With one, the layer has no biases.
  std::optional<Normalizer> normalizer = std::nullopt;
  /// `Initializer()`: the variable scope's.
  std::optional<variables::Initializer> weights_initializer = std::nullopt;
  /// `nullptr`: the variable scope's.
  std::optional<variables::Regularizer> weights_regularizer = std::nullopt;
  /// `Initializer()`: the layer has no biases.
  std::optional<variables::Initializer> biases_initializer = std::nullopt;
  std::optional<variables::Regularizer> biases_regularizer = std::nullopt;
  std::optional<StatisticsUpdate> updates = std::nullopt;
  std::optional<BatchStatistics> statistics = std::nullopt;
  /// Slim: is_training.
  std::optional<variables::Mode> mode = std::nullopt;
  std::optional<variables::Reuse> reuse = std::nullopt;
  /// Collections that the layer's variables are added to, besides the global and the model
  /// variables.
  std::vector<std::string> variables_collections = {};
  /// Collections of the graph that the result is added to, under the name of the layer's scope; see
  /// `end_points`.
  std::vector<std::string> outputs_collections = {};
  std::optional<bool> trainable = std::nullopt;
};

template <class T>
bool is_set(const std::optional<T>& argument) {
  return argument.has_value();
}
inline bool is_set(const std::vector<std::string>& argument) {
  return !argument.empty();
}

/// Calls `visit(name, own, other)` for each of the arguments that `Options` has: `own` is its
/// field, `other` that of `arguments`, which are `LayerArguments`.
template <class Options, class Arguments, class Visit>
void visit_arguments(Options& options, Arguments& arguments, const Visit& visit) {
  if constexpr (requires { options.stride; }) visit("stride", options.stride, arguments.stride);
  if constexpr (requires { options.padding; }) visit("padding", options.padding, arguments.padding);
  if constexpr (requires { options.count_padding; })
    visit("count_padding", options.count_padding, arguments.count_padding);
  if constexpr (requires { options.rate; }) visit("rate", options.rate, arguments.rate);
  if constexpr (requires { options.memory_format; })
    visit("memory_format", options.memory_format, arguments.memory_format);
  if constexpr (requires { options.keep_prob; })
    visit("keep_prob", options.keep_prob, arguments.keep_prob);
  if constexpr (requires { options.decay; }) visit("decay", options.decay, arguments.decay);
  if constexpr (requires { options.center; }) visit("center", options.center, arguments.center);
  if constexpr (requires { options.scale; }) visit("scale", options.scale, arguments.scale);
  if constexpr (requires { options.epsilon; }) visit("epsilon", options.epsilon, arguments.epsilon);
  if constexpr (requires { options.activation; })
    visit("activation", options.activation, arguments.activation);
  if constexpr (requires { options.normalizer; })
    visit("normalizer", options.normalizer, arguments.normalizer);
  if constexpr (requires { options.weights_initializer; })
    visit("weights_initializer", options.weights_initializer, arguments.weights_initializer);
  if constexpr (requires { options.weights_regularizer; })
    visit("weights_regularizer", options.weights_regularizer, arguments.weights_regularizer);
  if constexpr (requires { options.biases_initializer; })
    visit("biases_initializer", options.biases_initializer, arguments.biases_initializer);
  if constexpr (requires { options.biases_regularizer; })
    visit("biases_regularizer", options.biases_regularizer, arguments.biases_regularizer);
  if constexpr (requires { options.updates; }) visit("updates", options.updates, arguments.updates);
  if constexpr (requires { options.statistics; })
    visit("statistics", options.statistics, arguments.statistics);
  if constexpr (requires { options.mode; }) visit("mode", options.mode, arguments.mode);
  if constexpr (requires { options.reuse; }) visit("reuse", options.reuse, arguments.reuse);
  if constexpr (requires { options.variables_collections; })
    visit("variables_collections", options.variables_collections, arguments.variables_collections);
  if constexpr (requires { options.outputs_collections; })
    visit("outputs_collections", options.outputs_collections, arguments.outputs_collections);
  if constexpr (requires { options.trainable; })
    visit("trainable", options.trainable, arguments.trainable);
}

/// The names of the arguments of a layer with these options.
template <class Options>
std::vector<std::string_view> argument_names() {
  std::vector<std::string_view> names;
  const Options options;
  const LayerArguments arguments;
  visit_arguments(options, arguments,
                  [&](std::string_view name, const auto&, const auto&) { names.push_back(name); });
  return names;
}

}  // namespace brigade::layers
