#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/function_module.h"
#include "brigade/distribute/strategies/towers.h"
#include "brigade/variables/get_variable.h"

namespace brigade::distribute {

/// The function that a tower's model function calls to get the tower's own batch.
template <class B>
using InputFunction = std::function<B()>;

/// Computes the mean loss of one tower's batch, a scalar, from variables made by `get_variable` (or
/// layers that do). Called once per tower in every step, by the towers' threads at the same time.
template <class B>
using ModelFunction = std::function<at::Tensor(const InputFunction<B>& input_fn)>;

/// The program's input: returns the next batch at each call, and nullopt at the end of the data. It
/// is called by the thread that calls `update`, tower by tower, so the towers' batches do not
/// depend on timing. Example: `[it = dataset.iterator()]() mutable { return it.next(); }`.
template <class B>
using BatchSource = std::function<std::optional<B>()>;

/// A training step with in-graph replication. All towers compute the gradients of their own batches
/// at the same time, with the variables of the controller. The average of the gradients, weighted
/// by examples and therefore exact for uneven batches, updates the variables on the controller
/// once. Made by `create_parallel_optimization`. Movable.
///
/// Thread-safety: one thread, outside of replicas.
template <class B>
class ParallelOptimization {
 public:
  ParallelOptimization(ModelFunction<B> model_fn, BatchSource<B> source, optim::UpdateRulePtr rule,
                       TowerOptions options)
      : input_(options.input),
        source_(std::move(source)),
        strategy_(make_tower_strategy(options)),
        model_(build(std::move(model_fn))),
        global_step_(make_global_step(*strategy_)),
        optimizer_(
            make_tower_optimizer(*strategy_, model_.variables(), rule, options, global_step_)) {}

  /// Makes one step: input, towers, average, update. Returns the mean loss over all towers'
  /// examples, or nullopt at the end of the data. If the data ends in the middle of a step, towers
  /// without a batch have no weight, and no example is lost. Throws what a tower threw.
  std::optional<at::Tensor> update() {
    std::vector<std::vector<B>> batches = next_batches();
    if (batches.empty()) return std::nullopt;
    std::vector<std::int64_t> counts;
    for (const auto& of_tower : batches) counts.push_back(input::examples_in(of_tower.front()));
    const PerReplica<std::vector<B>> inputs(std::move(batches), ExampleCounts::of(counts));
    const auto losses = strategy_->run(
        [this](ReplicaContext& context, const std::vector<B>& own) {
          const TowerScope tower(context, *strategy_);
          std::size_t taken = 0;
          const at::Tensor loss = model_(InputFunction<B>([&] {
            check_state(taken < own.size(), kMoreInput);
            return input::to_device(own[taken++], context.device().torch_device);
          }));
          return optimizer_.minimize(loss);
        },
        inputs);
    return strategy_->reduce_loss(losses);
  }

  /// The number of updates: the variable "global_step".
  std::int64_t global_step() const { return global_step_.read().template item<std::int64_t>(); }
  const variables::Variable& global_step_variable() const { return global_step_; }
  /// All variables that the model function created, in the order of creation.
  const std::vector<variables::Variable>& variables() const { return model_.variables(); }
  const Optimizer& optimizer() const { return optimizer_; }
  Strategy& strategy() const { return *strategy_; }

 private:
  static constexpr const char* kMoreInput =
      "The model function took more batches than in its first pass: call input_fn equally often in "
      "every step.";

  Replicated<FunctionModule<ModelFunction<B>>> build(ModelFunction<B> model_fn) {
    // The first pass creates the variables and determines how many batches a tower takes in a step.
    // Its batches are used for training in the first step.
    auto model = strategy_->create(
        std::move(model_fn), InputFunction<B>([this] {
          std::optional<B> batch = source_();
          if (!batch) {
            throw Error(ErrorCode::kOutOfRange, "The input function returned no batch at all.");
          }
          pending_.push_back(*batch);
          return input::to_device(first_slice(*batch), strategy_->devices().front().torch_device);
        }));
    calls_ = pending_.size();
    check_argument(calls_ > 0,
                   "The model function takes no batch from input_fn, so every step would be the "
                   "same: call it.");
    return model;
  }

  std::size_t towers() const { return static_cast<std::size_t>(strategy_->num_replicas_in_sync()); }

  B first_slice(const B& batch) const {
    if (input_ == TowerInput::kBatchEach) return batch;
    return input::split_batch(batch, static_cast<std::int64_t>(towers())).front();
  }

  std::optional<B> next() {
    if (pending_.empty()) return source_();
    B batch = std::move(pending_.front());
    pending_.erase(pending_.begin());
    return batch;
  }

  /// [tower][call], or empty at the end of the data.
  std::vector<std::vector<B>> next_batches() {
    std::vector<std::vector<B>> batches(towers());
    if (input_ == TowerInput::kSlices) {
      for (std::size_t call = 0; call < calls_; ++call) {
        const std::optional<B> batch = next();
        if (!batch) return {};
        auto slices = input::split_batch(*batch, static_cast<std::int64_t>(towers()));
        for (std::size_t tower = 0; tower < towers(); ++tower)
          batches[tower].push_back(std::move(slices[tower]));
      }
      return batches;
    }
    for (std::size_t tower = 0; tower < towers(); ++tower) {
      for (std::size_t call = 0; call < calls_; ++call) {
        std::optional<B> batch = next();
        if (!batch && tower == 0) return {};
        batches[tower].push_back(batch ? std::move(*batch)
                                       : input::examples_between(batches.front()[call], 0, 0));
      }
    }
    return batches;
  }

  TowerInput input_;
  BatchSource<B> source_;
  std::vector<B> pending_;  // taken by the first pass, not yet used for training
  std::size_t calls_ = 0;   // of input_fn, per tower and step
  std::unique_ptr<Strategy> strategy_;
  Replicated<FunctionModule<ModelFunction<B>>> model_;
  variables::Variable global_step_;
  Optimizer optimizer_;
};

/// Builds the model once, on the first tower's device, and everything that trains it on all towers,
/// like the function of the same name in tutorials on in-graph replication. `rule` is an update
/// rule's options, such as `optim::Adam{.learning_rate = 1e-3}`. Throws kOutOfRange if `source` is
/// empty, and what the model function and the strategy throw.
template <class B, class Rule>
ParallelOptimization<B> create_parallel_optimization(ModelFunction<B> model_fn,
                                                     BatchSource<B> source, const Rule& rule,
                                                     TowerOptions options = {}) {
  return ParallelOptimization<B>(std::move(model_fn), std::move(source), rule.rule(),
                                 std::move(options));
}

}  // namespace brigade::distribute
