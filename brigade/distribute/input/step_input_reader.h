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
#include "brigade/distribute/input/auto_shard.h"
#include "brigade/distribute/input/epoch_counter.h"
#include "brigade/distribute/input/input_budget.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/input/piece_iterator.h"
#include "brigade/distribute/input/piece_sizes.h"
#include "brigade/distribute/device_transfer.h"
#include "brigade/distribute/step_meter.h"
#include "brigade/input/split.h"
#include "brigade/input/tensor_structure.h"  // how batches of tensors come apart

namespace brigade::distribute {

/// The definition of a strategy's input, for as many walks over it as are wanted.
///
/// Thread-safety: a value.
template <class B>
struct DistributedInput {
  /// One, or one for each of this process's replicas.
  std::vector<data::Dataset<B>> datasets;
  std::vector<c10::Device> devices;  ///< of this process's replicas
  BatchKind kind = BatchKind::kGlobal;
  WorkerLayout layout{};
  /// Which part is this worker's: one that `choose_auto_shard` gave.
  AutoShardPolicy policy = AutoShardPolicy::kData;
  InputOptions options{};
  ReplicaMapFunction<B> function{};
  /// Measures the time in `next`; null: not measured.
  std::shared_ptr<StepMeter> meter{};
  /// Learns which epochs iterators reach; null: nobody asks.
  std::shared_ptr<EpochCounter> epochs{};

  /// Whether this worker walks over a part of the dataset.
  bool has_shard() const {
    return policy == AutoShardPolicy::kFile || policy == AutoShardPolicy::kHint;
  }
  /// Whether each batch is cut for all replicas, rather than taken by one.
  bool is_split() const { return kind == BatchKind::kGlobal && !has_shard(); }
  /// Whether every worker takes a part of the batches that all of them make, which then have to be
  /// the same everywhere.
  bool needs_same_batches() const {
    return kind == BatchKind::kGlobal && layout.num_workers > 1 && policy == AutoShardPolicy::kData;
  }
  int batches_ahead() const { return distribute::batches_ahead(options, devices); }
};

/// What one worker has for the next step, before the workers agree on it.
template <class B>
struct StepInput {
  std::vector<std::optional<DeviceBatch<B>>> batches;  ///< [replica]; nothing where the data ended
  ExampleCounts examples;                             ///< global: only of batches that were cut
  bool is_last = false;                               ///< nothing but the end comes behind it
  std::exception_ptr error;                           ///< instead of shares

  bool has_data() const {
    return std::ranges::any_of(batches, [](const auto& share) { return share.has_value(); });
  }
};

/// Walks over one worker's part of the input and gives what its replicas take in each step, on
/// their devices.
///
/// A batch that fails is an error in its turn, and counts as passed. If others of the turn were
/// drawn before it, they come in the next turn; the position stays before them until then.
///
/// Thread-safety: one thread at a time.
template <class B>
class StepInputReader {
 public:
  /// Each pipeline's steps count in `Stages` of its own, made from `stages`.
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
      // What neither `stages` nor the dataset's options say: it takes the cores that are left.
      start.stages->offer(tuning_beside(input.devices, input.datasets.size()));
    }
    discard_collected();
  }

  StepInput<B> read() {
    StepInput<B> step_input;
    try {
      Batches batches = input_.is_split() ? split_next(step_input) : collect_next(step_input);
      const std::uint64_t step = step_;
      if (std::ranges::any_of(batches, has_batch)) ++step_;
      place(std::move(batches), step, step_input);
    } catch (...) {
      step_input.batches.clear();
      step_input.error = std::current_exception();
    }
    return step_input;
  }

  /// An empty batch for a replica, like `batch`.
  DeviceBatch<B> empty_like(const B& batch, std::size_t local) const {
    return transfer_.place(input::examples_between(batch, 0, 0), local, id_of(local, step_));
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
    for (PieceIterator<B>& walk : iterators_) walk.start_next_epoch();
    discard_collected();
    step_ = 0;
  }

  /// The position behind the last whole turn.
  io::StateTree save() const {
    io::StateTree position = is_between_steps() ? save_iterators() : before_;
    if (!transfer_.has_function()) return position;
    io::StateTree state;
    state[kMapped] = std::move(position);
    state[kStep] = step_;
    state[kSeed] = seed_;
    return state;
  }
  /// Goes there, or throws kInvalidArgument, and stays, where that position is not one of this
  /// input.
  void restore(const io::StateTree& state) {
    const bool is_mapped = state.has(kMapped);
    check_argument(is_mapped == transfer_.has_function(),
                   is_mapped
                       ? "The position was saved from a dataset with map_on_replica, and this "
                         "one has none: make the input as before, or begin a new epoch."
                       : "The position was saved from a dataset without map_on_replica, and "
                         "this one has it: make the input as before, or begin a new epoch.");
    const std::uint64_t step = is_mapped ? state.as_uint64(kStep) : 0;
    const std::uint64_t seed = is_mapped ? state.as_uint64(kSeed) : seed_;
    restore_iterators(is_mapped ? state.at(kMapped) : state);
    discard_collected();
    step_ = step;
    seed_ = seed;
  }

 private:
  using Batches = std::vector<std::optional<B>>;

  static bool has_batch(const std::optional<B>& share) { return share.has_value(); }
  std::size_t replicas() const { return input_.devices.size(); }
  bool is_between_steps() const { return num_collected_ == 0; }

  /// A global batch, cut for the replicas of all workers, or the pieces of this one's alone.
  Batches split_next(StepInput<B>& step_input) {
    std::optional<B> batch = iterators_.front().next();
    Batches batches(replicas());
    step_input.is_last = !batch;
    if (!batch) return batches;
    const bool is_all_mine = input_.policy == AutoShardPolicy::kOff;
    const int total = is_all_mine ? static_cast<int>(replicas()) : input_.layout.replicas.total;
    const int first = is_all_mine ? 0 : input_.layout.replicas.first;
    std::vector<B> all = input::split(*batch, total);
    for (std::size_t i = 0; i < replicas(); ++i)
      batches[i] = std::move(all[static_cast<std::size_t>(first) + i]);
    step_input.examples.global = input::examples_in(*batch);
    if (is_all_mine) step_input.examples.global *= input_.layout.num_workers;  // all train on the same
    return batches;
  }

  /// The next batch or piece of each replica, as far as this worker's own data goes.
  Batches collect_next(StepInput<B>& step_input) {
    if (is_between_steps() && replicas() > 1) before_ = save_iterators();
    for (; num_collected_ < replicas(); ++num_collected_) {
      collected_batches_[num_collected_] = iterators_[iterators_.size() > 1 ? num_collected_ : 0].next();
    }
    Batches batches = std::exchange(collected_batches_, Batches(replicas()));
    num_collected_ = 0;
    step_input.is_last =
        iterators_.size() > 1 ? std::ranges::none_of(batches, has_batch) : !batches.back().has_value();
    return batches;
  }

  void place(Batches batches, std::uint64_t step, StepInput<B>& step_input) {
    for (std::size_t i = 0; i < replicas(); ++i) {
      step_input.examples.local.push_back(batches[i] ? input::examples_in(*batches[i]) : 0);
      step_input.batches.emplace_back();
      if (batches[i]) step_input.batches.back() = transfer_.place(std::move(*batches[i]), i, id_of(i, step));
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
    for (const PieceIterator<B>& walk : iterators_) state[kReplicas].push_back(walk.save());
    return state;
  }
  void restore_iterators(const io::StateTree& state) {
    const std::size_t saved = state.has(kReplicas) ? state.at(kReplicas).size() : 1;
    check_argument(saved == iterators_.size(),
                   base::str_cat("The position is one of ", saved,
                                 " pipelines in this process, which has ", iterators_.size(),
                                 ": choose InputReplication and devices as before, or begin a new "
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
    for (std::size_t i = 0; i < iterators_.size(); ++i) iterators_[i].restore(positions.at(kReplicas, i));
  }

  static constexpr std::string_view kMapped = "mapped_shares";
  static constexpr std::string_view kStep = "step";
  static constexpr std::string_view kSeed = "seed";
  static constexpr std::string_view kReplicas = "replicas";

  DistributedInput<B> input_;
  DeviceTransfer<B> transfer_;
  std::vector<std::shared_ptr<data::Stages>> stages_;  // [walk]
  std::vector<PieceIterator<B>> iterators_;                // one, or one a replica
  std::uint64_t seed_;
  std::uint64_t step_ = 0;  // turns of this epoch
  io::StateTree before_;    // the walks' position before the turn that is being collected
  Batches collected_batches_;        // of it, in its first num_collected_ replicas
  std::size_t num_collected_ = 0;
};

}  // namespace brigade::distribute
