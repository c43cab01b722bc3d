#include "brigade/layers/normalization.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/layers/sync_batch_norm_function.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/layer_value.h"

namespace brigade::layers {
namespace {

using variables::Initializer;
using variables::Variable;

at::Tensor get_parameter(const char* name, const Initializer& initializer, const at::Tensor& like,
                         const LayerArguments& arguments) {
  const auto options = model_variable(initializer, arguments.variables_collections,
                                      arguments.trainable, device::variable_dtype(like));
  return variables::get_value(name, {{like.size(1)}}, options, like.device());
}

Variable get_statistic(const char* name, const Initializer& initializer, const at::Tensor& like,
                       const LayerArguments& arguments) {
  auto options = model_variable(initializer, arguments.variables_collections,
                                /*trainable=*/false, device::variable_dtype(like));
  options.synchronization = variables::Synchronization::kOnRead;
  options.aggregation = variables::Aggregation::kMean;
  return variables::get_variable(name, {{like.size(1)}}, options);
}

std::function<void()> move_towards(const Variable& moving, at::Tensor batch, double decay) {
  return [moving, batch = std::move(batch), decay] {
    const at::NoGradGuard no_gradients;
    const auto& before = moving.local();
    moving.assign(before + (batch.to(before.options()) - before) * (1.0 - decay));
  };
}

void update(const MovingStatistics& statistics, const BatchNormStep& step, at::Tensor mean,
            at::Tensor variance) {
  auto move_mean = move_towards(statistics.mean, std::move(mean), step.decay);
  auto move_variance = move_towards(statistics.variance, std::move(variance), step.decay);
  if (step.updates == StatisticsUpdate::kInPlace) {
    move_mean();
    move_variance();
    return;
  }
  auto& graph = variables::require_graph("batch_norm");
  graph.add_update_op("AssignMovingAvg", std::move(move_mean));
  graph.add_update_op("AssignMovingAvg", std::move(move_variance));
}

at::Tensor by_global_batch(comm::Communicator& ranks, const at::Tensor& inputs,
                           const MovingStatistics& statistics, const BatchNormStep& step) {
  GlobalBatchNorm whole = global_batch_norm(ranks, inputs, step.gamma, step.beta, step.epsilon);
  if (whole.count == 0) return std::move(whole.result);
  const bool of_distribution = step.variance == BatchNormStep::Variance::kOfDistribution;
  update(statistics, step, whole.mean,
         of_distribution ? whole.variance_of_distribution() : whole.variance);
  return std::move(whole.result);
}

at::Tensor by_moving_statistics(const at::Tensor& inputs, const MovingStatistics& statistics,
                                const BatchNormStep& step) {
  const auto device = inputs.device();
  return at::batch_norm(inputs, step.gamma, step.beta, statistics.mean.read().to(device),
                        statistics.variance.read().to(device), /*training=*/false, 0.0,
                        step.epsilon, /*cudnn_enabled=*/true);
}

void check_decay(double decay) {
  if (decay >= 0.0 && decay <= 1.0) return;
  throw Error(ErrorCode::kInvalidArgument, "batch_norm: decay is ", decay,
              "; expected a number from 0 to 1");
}

}  // namespace

at::Tensor get_beta(const at::Tensor& like, const LayerArguments& arguments) {
  return get_parameter("beta", variables::zeros_initializer(), like, arguments);
}

at::Tensor get_gamma(const at::Tensor& like, const LayerArguments& arguments,
                     const Initializer& initializer) {
  return get_parameter("gamma", initializer ? initializer : variables::ones_initializer(), like,
                       arguments);
}

MovingStatistics get_moving_statistics(const at::Tensor& like, const LayerArguments& arguments) {
  return {get_statistic("moving_mean", variables::zeros_initializer(), like, arguments),
          get_statistic("moving_variance", variables::ones_initializer(), like, arguments)};
}

at::Tensor normalized(const at::Tensor& inputs, const MovingStatistics& statistics,
                      const BatchNormStep& step) {
  const bool trains = step.mode == variables::Mode::kTraining;
  comm::Communicator* ranks =
      trains && step.statistics == BatchStatistics::kGlobal ? ranks_of_global_batch() : nullptr;
  if (ranks != nullptr) return by_global_batch(*ranks, inputs, statistics, step);
  if (!trains || inputs.numel() == 0) {
    return by_moving_statistics(inputs, statistics, step);
  }
  // libtorch updates statistics immediately, ours wait for the update ops: with momentum 1 it
  // returns the batch's statistics.
  const auto mean =
      at::zeros({inputs.size(1)}, statistics.mean.local().options().device(inputs.device()));
  auto variance = at::zeros_like(mean);
  auto result = at::batch_norm(inputs, step.gamma, step.beta, mean, variance, /*training=*/true,
                               1.0, step.epsilon, /*cudnn_enabled=*/true);
  const auto count = inputs.numel() / inputs.size(1);
  // One value has no variance; libtorch's estimate of it is 0 / 0. (Not in place: backward needs
  // the tensor as it is.)
  if (count == 1) variance = at::zeros_like(mean);
  if (step.variance == BatchNormStep::Variance::kOfBatch && count > 1) {
    variance = variance * (static_cast<double>(count - 1) / static_cast<double>(count));
  }
  update(statistics, step, mean, variance);
  return result;
}

at::Tensor batch_norm(const at::Tensor& inputs, const BatchNormOptions& options) {
  auto arguments = arguments_in_force(kLayerKind<batch_norm>, options);
  check_dimensions("batch_norm", inputs, 2);
  check_decay(arguments.decay.value_or(0.999));
  if (!arguments.activation) arguments.activation = nullptr;
  const OpenLayer layer(options.scope, "BatchNorm", arguments.reuse);
  const auto input = layer.place("FusedBatchNorm", inputs);
  const BatchNormStep step{
      .gamma = arguments.scale.value_or(false)
                   ? get_gamma(input, arguments, options.gamma_initializer)
                   : at::Tensor(),
      .beta = arguments.center.value_or(true) ? get_beta(input, arguments) : at::Tensor(),
      .epsilon = arguments.epsilon.value_or(0.001),
      .decay = arguments.decay.value_or(0.999),
      .updates = arguments.updates.value_or(StatisticsUpdate::kUpdateOps),
      .variance = input.dim() == 2 || input.dim() == 4 ? BatchNormStep::Variance::kOfDistribution
                                                       : BatchNormStep::Variance::kOfBatch,
      .statistics = arguments.statistics.value_or(BatchStatistics::kReplica),
      .mode = arguments.mode.value_or(variables::Mode::kTraining)};
  const auto statistics = get_moving_statistics(input, arguments);
  return finished(layer, arguments, normalized(input, statistics, step));
}

Normalizer batch_normalizer(BatchNormOptions options) {
  return [options = std::move(options)](const at::Tensor& inputs) {
    return batch_norm(inputs, options);
  };
}

at::Tensor layer_norm(const at::Tensor& inputs, const LayerNormOptions& options) {
  auto arguments = arguments_in_force(kLayerKind<layer_norm>, options);
  check_dimensions("layer_norm", inputs, 2);
  if (!arguments.activation) arguments.activation = nullptr;
  const OpenLayer layer(options.scope, "LayerNorm", arguments.reuse);
  const auto input = layer.place("LayerNorm", inputs);
  const auto beta = arguments.center.value_or(true) ? get_beta(input, arguments) : at::Tensor();
  const auto gamma = arguments.scale.value_or(true) ? get_gamma(input, arguments) : at::Tensor();
  // A single group of all channels is the whole example.
  return finished(layer, arguments,
                  at::group_norm(input, 1, gamma, beta, arguments.epsilon.value_or(1e-12)));
}

}  // namespace brigade::layers
