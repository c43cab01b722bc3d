#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/dataset.h"
#include "brigade/data/runtime/stages.h"
#include "brigade/distribute/device_transfer.h"
#include "brigade/distribute/input/auto_shard.h"
#include "brigade/distribute/input/epoch_counter.h"
#include "brigade/distribute/input/input_budget.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/input/piece_iterator.h"
#include "brigade/distribute/input/piece_sizes.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/step_meter.h"
#include "brigade/input/split.h"
#include "brigade/input/tensor_structure.h"  // how batches of tensors are split

namespace brigade::distribute {

/// The definition of a strategy's input, from which any number of iterators can be made.
///
/// Thread-safety: a value.
template <class B>
struct DistributedInput {
  /// One, or one for each of this process's replicas.
  std::vector<data::Dataset<B>> datasets;
  std::vector<c10::Device> devices;  ///< of this process's replicas
  BatchKind kind = BatchKind::kGlobal;
  WorkerLayout layout{};
  /// How the workers divide the dataset: a policy that `choose_auto_shard` returned.
  AutoShardPolicy policy = AutoShardPolicy::kData;
  InputOptions options{};
  ReplicaMapFunction<B> function{};
  /// Measures the time in `next`; null: not measured.
  std::shared_ptr<StepMeter> meter{};
  /// Records which epochs the iterators have reached; null: not recorded.
  std::shared_ptr<EpochCounter> epochs{};

  /// Whether this worker iterates over a shard of the dataset.
  bool has_shard() const {
    return policy == AutoShardPolicy::kFile || policy == AutoShardPolicy::kHint;
  }
  /// Whether each batch is split among all replicas, instead of being one replica's batch.
  bool is_split() const { return kind == BatchKind::kGlobal && !has_shard(); }
  /// Whether all workers make the same batches and each takes a part of every batch. The batches
  /// must then be identical in all workers.
  bool needs_same_batches() const {
    return kind == BatchKind::kGlobal && layout.num_workers > 1 && policy == AutoShardPolicy::kData;
  }
  int batches_ahead() const { return distribute::batches_ahead(options, devices); }
};

/// What one worker has for the next step, before the workers agree on it.
template <class B>
struct StepInput {
  std::vector<std::optional<DeviceBatch<B>>> batches;  ///< [replica]; unset where the data ended
  ExampleCounts examples;                              ///< `global` is set only for split batches
  bool is_last = false;                                ///< the data ends after this step
  std::exception_ptr error;  ///< set instead of `batches` if reading failed

  bool has_data() const {
    return std::ranges::any_of(batches, [](const auto& batch) { return batch.has_value(); });
  }
};

/// Reads one worker's part of the input, step by step: the per-replica batches of this worker's
/// replicas, on their devices.
///
/// A batch that fails makes the step's input an error, and counts as read. Batches of the same step
/// that were read before it are returned with the next step; until then the position stays before
/// them.
///
/// Thread-safety: one thread at a time.
template <class B>
class StepInputReader {
 public:
  /// Each pipeline has separate `Stages` statistics, made from `stages`.
  StepInputReader(const DistributedInput<B>& input, data::IteratorOptions start,
                  const data::StagesOptions& stages = {})
      : input_(input),
        transfer_(input.devices, input.options, input.function, input.batches_ahead() > 0),
        seed_(start.seed) {
    start.shard = shard_of(input.layout, input.policy);
    if (input.needs_same_batches()) start.order = data::Order::kInOrder;
    for (const data::Dataset<B>& dataset : input.datasets) {
      start.stages = stages_.emplace_back(std::make_shared<data::Stages>(stages));
      iterators_.emplace_back(dataset.iterator(start), piece_sizes(input.policy, input.layout));
      // The default where neither `stages` nor the dataset's options set a budget.
      start.stages->set_default_tuning(input_tuning(input.devices, input.datasets.size()));
    }
    discard_collected();
  }

  StepInput<B> read() {
    StepInput<B> step_input;
    try {
      Batches batches = input_.is_split() ? split_next(step_input) : collect_next(step_input);
      const std::uint64_t step = step_;
      if (std::ranges::any_of(batches, has_batch)) ++step_;
      transfer_all(std::move(batches), step, step_input);
    } catch (...) {
      step_input.batches.clear();
      step_input.error = std::current_exception();
    }
    return step_input;
  }

  /// A batch without examples for replica `local`, with the structure of `batch`.
  DeviceBatch<B> empty_like(const B& batch, std::size_t local) const {
    return transfer_.transfer(input::examples_between(batch, 0, 0), local, id_of(local, step_));
  }

  std::uint64_t epoch() const { return iterators_.front().epoch(); }
  /// See `DistributedIterator::stats`. From any thread.
  std::vector<data::StageStats> stats() const {
    if (stages_.size() == 1) return stages_.front()->stats();
    std::vector<data::StageStats> all;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      for (data::StageStats& step : stages_[i]->stats()) {
        step.name = base::str_cat("replica ", input_.layout.replicas.first + static_cast<int>(i),
                                  ": ", step.name);
        all.push_back(std::move(step));
      }
    }
    return all;
  }
  void start_next_epoch() {
    for (PieceIterator<B>& iterator : iterators_) iterator.start_next_epoch();
    discard_collected();
    step_ = 0;
  }

  /// The position after the last complete step.
  io::StateTree save() const {
    io::StateTree position = is_between_steps() ? save_iterators() : before_;
    if (!transfer_.has_function()) return position;
    io::StateTree state;
    state[kMapped] = std::move(position);
    state[kStep] = step_;
    state[kSeed] = seed_;
    return state;
  }
  /// Moves to a saved position. Throws kInvalidArgument, and does not move, if the position is not
  /// one of this input.
  void restore(const io::StateTree& state) {
    const bool is_mapped = state.has(kMapped);
    check_argument(is_mapped == transfer_.has_function(),
                   is_mapped
                       ? "The position was saved from a dataset with map_on_replica, but this "
                         "dataset has no map_on_replica: make the input as before, or start a new "
                         "epoch."
                       : "The position was saved from a dataset without map_on_replica, but "
                         "this dataset has one: make the input as before, or start a new epoch.");
    const std::uint64_t step = is_mapped ? state.as_uint64(kStep) : 0;
    const std::uint64_t seed = is_mapped ? state.as_uint64(kSeed) : seed_;
    restore_iterators(is_mapped ? state.at(kMapped) : state);
    discard_collected();
    step_ = step;
    seed_ = seed;
  }

 private:
  using Batches = std::vector<std::optional<B>>;

  static bool has_batch(const std::optional<B>& batch) { return batch.has_value(); }
  std::size_t replicas() const { return input_.devices.size(); }
  bool is_between_steps() const { return num_collected_ == 0; }

  /// A global batch, split among the replicas of all workers; with kOff among this worker's only.
  Batches split_next(StepInput<B>& step_input) {
    std::optional<B> batch = iterators_.front().next();
    Batches batches(replicas());
    step_input.is_last = !batch;
    if (!batch) return batches;
    const bool takes_whole_batch = input_.policy == AutoShardPolicy::kOff;
    const int total =
        takes_whole_batch ? static_cast<int>(replicas()) : input_.layout.replicas.total;
    const int first = takes_whole_batch ? 0 : input_.layout.replicas.first;
    std::vector<B> all = input::split(*batch, total);
    for (std::size_t i = 0; i < replicas(); ++i)
      batches[i] = std::move(all[static_cast<std::size_t>(first) + i]);
    step_input.examples.global = input::examples_in(*batch);
    if (takes_whole_batch)
      step_input.examples.global *=
          input_.layout.num_workers;  // every worker trains on all examples
    return batches;
  }

  /// The next batch or piece of each replica, until this worker's data ends.
  Batches collect_next(StepInput<B>& step_input) {
    if (is_between_steps() && replicas() > 1) before_ = save_iterators();
    for (; num_collected_ < replicas(); ++num_collected_) {
      collected_batches_[num_collected_] =
          iterators_[iterators_.size() > 1 ? num_collected_ : 0].next();
    }
    Batches batches = std::exchange(collected_batches_, Batches(replicas()));
    num_collected_ = 0;
    step_input.is_last = iterators_.size() > 1 ? std::ranges::none_of(batches, has_batch)
                                               : !batches.back().has_value();
    return batches;
  }

  void transfer_all(Batches batches, std::uint64_t step, StepInput<B>& step_input) {
    for (std::size_t i = 0; i < replicas(); ++i) {
      step_input.examples.local.push_back(batches[i] ? input::examples_in(*batches[i]) : 0);
      step_input.batches.emplace_back();
      if (batches[i])
        step_input.batches.back() = transfer_.transfer(std::move(*batches[i]), i, id_of(i, step));
    }
  }
  ReplicaBatchId id_of(std::size_t local, std::uint64_t step) const {
    return {.seed = seed_,
            .replica = input_.layout.replicas.first + static_cast<int>(local),
            .epoch = epoch(),
            .step = step};
  }

  void discard_collected() {
    collected_batches_ = Batches(replicas());
    num_collected_ = 0;
  }
  io::StateTree save_iterators() const {
    if (iterators_.size() == 1) return iterators_.front().save();
    io::StateTree state;
    state[kReplicas] = io::StateTree::list();
    for (const PieceIterator<B>& iterator : iterators_) state[kReplicas].push_back(iterator.save());
    return state;
  }
  void restore_iterators(const io::StateTree& state) {
    const std::size_t saved = state.has(kReplicas) ? state.at(kReplicas).size() : 1;
    check_argument(saved == iterators_.size(),
                   base::str_cat("The position was saved with ", saved,
                                 " pipelines in this process, which now has ", iterators_.size(),
                                 ": choose InputReplication and devices as before, or start a new "
                                 "epoch."));
    if (saved == 1) return iterators_.front().restore(state);
    const io::StateTree before = save_iterators();
    try {
      restore_each(state);
    } catch (...) {
      restore_each(before);
      throw;
    }
  }
  void restore_each(const io::StateTree& positions) {
    for (std::size_t i = 0; i < iterators_.size(); ++i)
      iterators_[i].restore(positions.at(kReplicas, i));
  }

  static constexpr std::string_view kMapped = "mapped_shares";
  static constexpr std::string_view kStep = "step";
  static constexpr std::string_view kSeed = "seed";
  static constexpr std::string_view kReplicas = "replicas";

  DistributedInput<B> input_;
  DeviceTransfer<B> transfer_;
  std::vector<std::shared_ptr<data::Stages>> stages_;  // [iterator]
  std::vector<PieceIterator<B>> iterators_;            // one, or one for each replica
  std::uint64_t seed_;
  std::uint64_t step_ = 0;     // steps of this epoch
  io::StateTree before_;       // the iterators' position before the step being collected
  Batches collected_batches_;  // of that step: the first num_collected_ replicas' batches
  std::size_t num_collected_ = 0;
};

}  // namespace brigade::distribute
