#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/device/random_scope.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/step_capture.h"
#include "brigade/input/split.h"
#include "brigade/input/to_device.h"

namespace brigade::distribute {

struct CompiledStepOptions {
  /// How many calls run eagerly before the step is captured: in the first ones libraries choose
  /// kernels and take memory. At least 1.
  int warmup = 3;
};

/// Why no step of this strategy is captured; empty: steps may be.
std::string capture_obstacle(const Strategy& strategy);
/// What its steps are captured with (`StrategyParts::graph`).
const device::GraphFactory& graph_factory(const Strategy& strategy);
/// Gives the device of a replica what its optimizers have been told since the last step.
void update_device_counters(const Strategy& strategy, int replica);

/// A step function that `Strategy::compile` has prepared. Call it with the arguments of
/// `Strategy::run`; the results are those of `run`. On one GPU the kernels of one call are captured
/// and later calls replay them, without the host's time for each. Everywhere else, and for whatever
/// cannot be captured, a call is `run`, and `eager_reason` says why.
///
/// What is captured must be the same in each call. So the function must not read values of GPU
/// tensors on the host, make collectives, or depend on anything but its tensors, variables and
/// random numbers: what it does on the host (counting, logging) is done in eager calls only, and
/// once more if a capture fails. Results of captured calls have no history for autograd. Calls with
/// tensors of other shapes, such as a last small batch, run eagerly.
///
/// Optimizers of the strategy may be used in it, with `minimize`, or with gradients that are
/// clipped on the device: the device has their rates and counts their updates, so a rate that is
/// set between two calls is that of the next one, and after a restore the step is captured anew.
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
        capture_(options.warmup, graph_factory(strategy)) {
    const std::string obstacle = capture_obstacle(strategy);
    if (!obstacle.empty()) capture_.give_up(obstacle);
  }

  /// As `strategy.run(function, arguments...)`.
  template <class S = Strategy, class... Arguments>
  auto operator()(const Arguments&... arguments) {
    const auto call = [this](ReplicaContext& context, const auto&... own) {
      return this->call_in(context, own...);
    };
    // A member of a dependent type, because Strategy includes this header.
    return static_cast<S&>(strategy_).run(call, arguments...);
  }

  /// Why the last call ran eagerly: "the replicas are on CPUs, ..."; empty if it was captured or
  /// replayed, and before the first call that may be.
  const std::string& eager_reason() const { return capture_.eager_reason(); }

 private:
  template <class... Own>
  decltype(auto) invoke(ReplicaContext& context, const Own&... own) {
    if constexpr (std::is_invocable_v<Function&, ReplicaContext&, const Own&...>) {
      return std::invoke(function_, context, own...);
    } else {
      return std::invoke(function_, own...);
    }
  }

  template <class... Own>
  auto call_in(ReplicaContext& context, const Own&... own) {
    using Result = std::decay_t<decltype(invoke(context, own...))>;
    constexpr bool has_tensors = (input::Splittable<Own> && ...) &&
                                 (std::is_void_v<Result> || std::is_same_v<Result, at::Tensor>);
    if constexpr (!has_tensors) {
      if (!capture_.is_ruled_out())
        capture_.give_up("its arguments are not batches, or its result is not a tensor");
      return invoke(context, own...);
    } else {
      if (capture_.is_ruled_out()) return invoke(context, own...);
      return captured<Result>(context, own...);
    }
  }

  template <class Result, class... Own>
  Result captured(ReplicaContext& context, const Own&... own) {
    const std::vector<at::Tensor> given = tensors_of(own...);
    StepCapture::Next next = capture_.plan(given);
    if (next != StepCapture::Next::kEager) update_device_counters(strategy_, context.local_id);
    if (next == StepCapture::Next::kCapture && !capture<Result>(context, given, own...))
      next = StepCapture::Next::kEager;
    if (next == StepCapture::Next::kEager) return invoke(context, own...);
    random_of(context);  // seeded for this step
    std::vector<at::Tensor> results = capture_.replay(given);
    if constexpr (!std::is_void_v<Result>) return std::move(results.front());
  }

  /// Whether the step is captured now.
  template <class Result, class... Own>
  bool capture(ReplicaContext& context, const std::vector<at::Tensor>& given, const Own&... own) {
    const CaptureScope scope(context, capture_);
    try {
      const c10::Device device = context.device().torch_device;
      if (!capture_.begin(device, given, random_of(context))) return false;
      std::size_t next = 0;
      const auto captured_input = [&](const at::Tensor&) { return capture_.inputs()[next++]; };
      // In the order of tensors_of: braces evaluate from left to right.
      const std::tuple<Own...> inputs{input::each_tensor(own, captured_input)...};
      std::vector<at::Tensor> results;
      std::apply(
          [&](const Own&... each) {
            if constexpr (std::is_void_v<Result>) {
              invoke(context, each...);
            } else {
              results.push_back(invoke(context, each...));
            }
          },
          inputs);
      capture_.end(std::move(results));
      return true;
    } catch (const std::exception& error) {
      capture_.give_up(
          base::str_cat("it cannot be captured: ", base::without_stack_trace(error.what())));
      return false;
    }
  }

  /// What the function calls in a replica finds the capture.
  class CaptureScope {
   public:
    CaptureScope(ReplicaContext& context, StepCapture& capture) : context_(context) {
      context.set_capture(&capture);
    }
    ~CaptureScope() { context_.set_capture(nullptr); }
    CaptureScope(const CaptureScope&) = delete;
    CaptureScope& operator=(const CaptureScope&) = delete;

   private:
    ReplicaContext& context_;
  };

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
  StepCapture capture_;
};

}  // namespace brigade::distribute
