#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/device/random_scope.h"
#include "brigade/distribute/optimizer/step_loss.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/replica_capture.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/input/split.h"
#include "brigade/input/to_device.h"

namespace brigade::distribute {

/// Options of `Strategy::compile`.
struct CompiledStepOptions {
  /// How many calls run eagerly before the step is captured: in the first ones libraries choose
  /// kernels and take memory. At least 1.
  int warmup = 3;
};

/// Why no step of this strategy is captured; empty: steps may be.
std::string capture_obstacle(const Strategy& strategy);
/// What its steps are captured with (`StrategyParts::graph`).
const device::GraphFactory& graph_factory(const Strategy& strategy);
int local_replicas(const Strategy& strategy);
/// Copies what was set in a replica's optimizers since the last step to the replica's device.
void update_device_counters(const Strategy& strategy, int replica);

/// A step function that `Strategy::compile` has prepared. Call it with the arguments of
/// `Strategy::run`; the results are those of `run`. On one GPU, with one or several logical GPUs,
/// the kernels of one call are captured and later calls replay them, without the host's time for
/// each: those of all replicas and of their reductions and their update as one graph. Everywhere
/// else, and for whatever cannot be captured, a call is `run`, and `eager_reason` says why.
///
/// What is captured must be the same in each call. So the function must not read values of GPU
/// tensors on the host, or depend on anything but its tensors, variables and random numbers: what
/// it does on the host (counting, logging) is done in eager calls only, and once more if a capture
/// fails. Results of captured calls have no history for autograd. Calls with tensors of other
/// shapes, such as a last small batch, run eagerly.
///
/// Optimizers of the strategy may be used in it, with `minimize`, or with gradients that are
/// clipped on the device: the device has their rates and counts their updates, so a rate that is
/// set between two calls is that of the next one, and after a restore the step is captured again.
/// Those that accumulate micro-batches or have a gradient scaler decide on the host, and so run
/// eagerly.
///
/// The counterpart of tf.function.
///
/// Thread-safety: as Strategy. Must not be used after the strategy is destroyed.
template <class Function>
class CompiledStep {
 public:
  CompiledStep(Strategy& strategy, Function function, const CompiledStepOptions& options)
      : strategy_(strategy),
        function_(std::move(function)),
        capture_(std::make_unique<ReplicaCapture>(local_replicas(strategy), options.warmup,
                                                  graph_factory(strategy))),
        losses_(static_cast<std::size_t>(local_replicas(strategy))) {
    const std::string obstacle = capture_obstacle(strategy);
    if (!obstacle.empty()) capture_->give_up(obstacle);
  }

  /// As `strategy.run(function, arguments...)`.
  template <class S = Strategy, class... Arguments>
  auto operator()(const Arguments&... arguments) {
    using Result =
        std::decay_t<decltype(invoke(std::declval<ReplicaContext&>(),
                                     std::declval<const internal::Component<Arguments>&>()...))>;
    constexpr bool has_tensors = (input::Splittable<internal::Component<Arguments>> && ...) &&
                                 (std::is_void_v<Result> || std::is_same_v<Result, at::Tensor> ||
                                  std::is_same_v<Result, StepLoss>);
    S& strategy = strategy_;  // of a dependent type, because Strategy includes this header
    if constexpr (has_tensors) {
      if (plan(strategy, arguments...) != ReplicaCapture::Next::kEager) {
        const std::uint64_t step = strategy.step();
        try {
          return run_captured<Result>(strategy, arguments...);
        } catch (...) {
          if (!capture_->has_failed()) throw;
        }
        strategy.set_step(step);  // nothing of it has been computed
      }
    } else if (!capture_->is_ruled_out()) {
      capture_->give_up("its arguments are not batches, or its result is not a tensor or loss");
    }
    const auto eager = [this](ReplicaContext& context, const auto&... own) {
      return this->invoke(context, own...);
    };
    return strategy.run(eager, arguments...);
  }

  /// Why the last call ran eagerly: "the replicas are on CPUs, ..."; empty if it was captured or
  /// replayed, and before the first call that may be.
  const std::string& eager_reason() const { return capture_->eager_reason(); }

 private:
  template <class... Own>
  decltype(auto) invoke(ReplicaContext& context, const Own&... own) {
    if constexpr (std::is_invocable_v<Function&, ReplicaContext&, const Own&...>) {
      return std::invoke(function_, context, own...);
    } else {
      return std::invoke(function_, own...);
    }
  }

  template <class S, class... Arguments>
  ReplicaCapture::Next plan(const S& strategy, const Arguments&... arguments) {
    if (capture_->is_ruled_out()) return ReplicaCapture::Next::kEager;
    const int replicas = strategy.num_local_replicas();
    // Otherwise `run` says what is wrong.
    if (!(internal::has_replicas(arguments, replicas) && ...)) return ReplicaCapture::Next::kEager;
    std::vector<std::vector<at::Tensor>> given;
    for (int replica = 0; replica < replicas; ++replica)
      given.push_back(tensors_of(internal::component(arguments, replica)...));
    return capture_->plan(given);
  }

  template <class Result, class S, class... Arguments>
  auto run_captured(S& strategy, const Arguments&... arguments) {
    const auto captured = [this](ReplicaContext& context, const auto&... own) {
      capture_->run(context, random_of(context), [&](std::span<const at::Tensor> inputs) {
        return this->template results_with<Result>(context, inputs, own...);
      });
    };
    strategy.run(captured, arguments...);
    std::vector<at::Tensor> results = capture_->take_results();
    if constexpr (std::is_same_v<Result, at::Tensor>)
      return PerReplica<at::Tensor>(std::move(results), internal::first_examples(arguments...));
    if constexpr (std::is_same_v<Result, StepLoss>) {
      std::vector<StepLoss> losses;
      for (std::size_t replica = 0; replica < results.size(); ++replica)
        losses.push_back(losses_[replica].with_local(std::move(results[replica])));
      return PerReplica<StepLoss>(std::move(losses), internal::first_examples(arguments...));
    }
  }

  /// The results of the function with `inputs` in the places of the arguments' tensors.
  template <class Result, class... Own>
  std::vector<at::Tensor> results_with(ReplicaContext& context, std::span<const at::Tensor> inputs,
                                       const Own&... own) {
    std::size_t next = 0;
    [[maybe_unused]] const auto input = [&](const at::Tensor&) { return inputs[next++]; };
    // In the order of tensors_of: braces evaluate from left to right.
    const std::tuple<Own...> replaced{input::each_tensor(own, input)...};
    std::vector<at::Tensor> results;
    std::apply(
        [&](const Own&... each) {
          if constexpr (std::is_void_v<Result>) {
            invoke(context, each...);
          } else if constexpr (std::is_same_v<Result, StepLoss>) {
            StepLoss& loss = losses_[static_cast<std::size_t>(context.local_id)];
            loss = invoke(context, each...);
            results.push_back(loss.local());
          } else {
            results.push_back(invoke(context, each...));
          }
        },
        replaced);
    return results;
  }

  template <class... Own>
  static std::vector<at::Tensor> tensors_of(const Own&... own) {
    std::vector<at::Tensor> tensors;
    const auto keep = [&](const at::Tensor& tensor) {
      tensors.push_back(tensor);
      return tensor;
    };
    (input::each_tensor(own, keep), ...);
    return tensors;
  }

  static at::Generator random_of(const ReplicaContext& context) {
    device::ReplicaGenerator* const random = device::carried(device::kGeneratorSlot);
    return random ? random->generator(context.device().torch_device) : at::Generator();
  }

  Strategy& strategy_;
  Function function_;
  std::unique_ptr<ReplicaCapture> capture_;  // movable
  std::vector<StepLoss> losses_;             // [replica]: what the captured call returned
};

}  // namespace brigade::distribute
