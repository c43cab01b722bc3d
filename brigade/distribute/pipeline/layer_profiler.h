#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/distribute/strategies/pipeline_cut.h"

namespace brigade::distribute {

/// Measures what the layers of a model cost, in steps in which each device computes the whole model
/// for its micro-batches, one after another. A layer costs the time from its announcement to that
/// of the next one, and in backward the time until the gradient of its input is there, which a hook
/// of that tensor notices: the graph does not change. What comes before the first layer counts
/// there. Waiting does not count. What a micro-batch does after its backward pass, such as adding
/// gradients, is no layer's.
///
/// Thread-safety: each task from its own thread; `begin_step`, `end_step` and the results while no
/// task runs; `fail` from any thread.
class LayerProfiler final : public std::enable_shared_from_this<LayerProfiler> {
 public:
  enum class Memory { kNotMeasured, kMeasured };

  /// `devices`: how many tasks compute at the same time.
  explicit LayerProfiler(
      int tasks, int devices = 1, Memory memory = Memory::kNotMeasured,
      std::shared_ptr<const base::Clock> clock = std::make_shared<base::SystemClock>());
  ~LayerProfiler();

  void begin_step();
  /// Keeps what the step's tasks have measured, unless the step failed or no task made a backward
  /// pass. Does nothing without a step that has begun.
  void end_step();
  /// The step has failed.
  void fail() { has_failed_ = true; }

  /// The task computes from now on, or waits.
  void resume(int task);
  void pause(int task);
  /// The task has ended.
  void end(int task);
  void begin_layer(int task, std::string_view name, const at::Tensor& x);
  void begin_backward(int task);
  /// Calls `work`, which the backward pass of the current layer could leave for later.
  void weight_gradient(int task, const std::function<void()>& work);
  void end_backward(int task);

  /// The layers that the task has announced in this step.
  const std::vector<std::string>& layers(int task) const;
  /// The number of steps kept.
  int steps() const { return steps_; }
  /// In the order in which the layers were first announced: medians over micro-batches and steps,
  /// without the first step if there are several.
  std::vector<LayerCost> costs() const;
  /// What all devices together do in a step besides the layers, the median: they add gradients
  /// after backward passes, and after the last one they add and update, or wait.
  double seconds_besides() const;

 private:
  struct Pass;
  struct Samples;

  void charge(Pass& pass) const;
  void reached(int task, std::size_t layer);
  void keep(const Pass& pass);
  double seconds_besides_of_step() const;
  Samples& samples_of(const std::string& layer);

  const int devices_;
  const Memory memory_;
  const std::shared_ptr<const base::Clock> clock_;
  std::vector<std::unique_ptr<Pass>> passes_;  // [task]
  std::vector<Samples> samples_;
  std::vector<double> besides_;  // [step]
  bool is_in_step_ = false;
  std::atomic<bool> has_failed_ = false;
  int steps_ = 0;
};

}  // namespace brigade::distribute
