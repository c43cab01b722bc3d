#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/dataset.h"
#include "brigade/data/runtime/stages.h"
#include "brigade/distribute/input/input_agreement.h"
#include "brigade/distribute/input/input_coordinator.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/input/step_input_prefetcher.h"
#include "brigade/distribute/input/step_input_reader.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/step_meter.h"
#include "brigade/input/split.h"
#include "brigade/input/tensor_structure.h"  // how batches of tensors are split
#include "brigade/input/to_device.h"
#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// Splits a global batch among the replicas of all workers, by `input::split_sizes`. Returns the
/// per-replica batches of this process, on their devices, with the counts of examples.
template <class B>
PerReplica<B> split_for_replicas(const B& batch, const ReplicaRange& replicas,
                                 std::span<const c10::Device> devices) {
  std::vector<B> all = input::split(batch, replicas.total);
  std::vector<B> batches;
  ExampleCounts counts{.local = {}, .global = input::examples_in(batch)};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    B& own = all[static_cast<std::size_t>(replicas.first) + i];
    counts.local.push_back(input::examples_in(own));
    batches.push_back(devices[i].is_cpu() ? std::move(own) : input::to_device(own, devices[i]));
  }
  return PerReplica<B>(std::move(batches), std::move(counts));
}

/// Iterates over a distributed dataset: `next` returns the per-replica batches of one global batch,
/// each on its replica's device.
///
/// Batches are split by `input::split_sizes`: sizes differ by at most one, larger ones first. No
/// example is dropped at an uneven end: a replica without examples gets an empty batch, and the
/// iteration ends when no replica of any worker has examples left. Leaving the loop early, or
/// destroying the iterator, stops its threads.
///
/// If a replica is on a GPU, or `InputOptions::per_replica_buffer_size` asks for it, a separate
/// thread prefetches the next batches while the step computes, and copies them on separate streams:
/// see StepInputPrefetcher. The order, the end, errors and saved positions do not change.
///
/// With several workers and AutoShardPolicy::kData, each worker iterates over the same global
/// batches and takes its replicas' part; nothing is sent. If every worker has its own data (by
/// file, by hint, or from a function), `next`, `save` and `restore` are collectives of the workers:
/// in each step they agree on who still has data. The first `next` is always a collective: the
/// workers compare their inputs (`check_same_input`).
///
/// An error in one worker's data is thrown unchanged in that worker, and fails the step for all:
/// the others throw kAborted naming that worker, from `next` if it is a collective, or else from
/// the `Strategy::run` that waits for its gradients. The step's batches count as read.
///
/// Thread-safety: one thread at a time, outside of replicas; `stats` from any.
template <class B>
class DistributedIterator {
 public:
  /// Iterates over the input from `start` on. `stages` says how its stages are measured and tuned.
  DistributedIterator(DistributedInput<B> input, const data::IteratorOptions& start,
                      const data::StagesOptions& stages = {})
      : input_(complete(std::move(input))),
        coordinator_(input_.layout, input_.kind == BatchKind::kPerReplica || input_.has_shard()
                                        ? InputSource::kOwn
                                        : InputSource::kSameForAll),
        prefetcher_(std::make_unique<StepInputPrefetcher<B>>(input_, start, stages)) {}

  /// The per-replica batches of the next global batch, with their counts of examples; nullopt at
  /// the end. Throws kFailedPrecondition in a replica, and kInvalidArgument in all workers if their
  /// inputs do not match.
  std::optional<PerReplica<B>> next() {
    check_state(in_cross_replica_context(), kInReplica);
    const StepMeter::InputScope waiting_for_input(input_.meter.get());
    if (coordinator_.must_compare()) coordinator_.compare(description());
    return input_.is_split() ? split_next() : collect_next();
  }

  /// Saves the position after the last global batch that `next` returned, and resumes from it (see
  /// data::Iterator).
  io::StateTree save() const { return coordinator_.save(prefetcher_->save()); }
  void restore(const io::StateTree& state) {
    prefetcher_->restore(coordinator_.restore(state));
    record_reached_epoch();
  }
  std::uint64_t epoch() const { return prefetcher_->epoch(); }
  void start_next_epoch() {
    prefetcher_->start_next_epoch();
    record_reached_epoch();
  }

  /// Statistics of each stage of this worker's input since the iterator was made, sources first,
  /// for `data::describe` and `data::bottleneck`. All stages if
  /// `DistributedIteratorOptions::stages` asks for kAll, otherwise those that `kAutotune` adjusts.
  /// If each replica has its own pipeline, the pipelines follow one another, with "replica 3: "
  /// before the names. `Strategy::step_times` says how long the replicas waited.
  std::vector<data::StageStats> stats() const { return prefetcher_->stats(); }

 private:
  static DistributedInput<B> complete(DistributedInput<B> input) {
    check_argument(!input.datasets.empty(), "Input needs a dataset.");
    input.layout = with_replicas(std::move(input.layout), static_cast<int>(input.devices.size()));
    return input;
  }

  /// So that iterators made later start at later epochs.
  void record_reached_epoch() {
    if (input_.epochs) input_.epochs->record_epoch(prefetcher_->epoch());
  }

  InputDescription description() const {
    const data::Dataset<B>& dataset = input_.datasets.front();
    return {.kind = input_.kind,
            .replication = input_.options.replication,
            .policy = input_.policy,
            .files = dataset.sharding().file_list_hash,
            .pipeline = dataset.node()->pipeline(),
            .cardinality = dataset.cardinality(),
            .epoch = prefetcher_->epoch()};
  }

  /// Calls `read`, which reads this worker's own data. If it throws, reports that to the others.
  template <class Read>
  auto read_own(const Read& read) {
    try {
      return read();
    } catch (const std::exception& error) {
      coordinator_.fail(std::string(base::without_stack_trace(error.what())));
      throw;
    }
  }

  std::optional<PerReplica<B>> split_next() {
    return read_own([&]() -> std::optional<PerReplica<B>> {
      StepInput<B> step_input = prefetcher_->next();
      if (!step_input.has_data()) return std::nullopt;
      return PerReplica<B>(take_batches(std::move(step_input.batches)),
                           std::move(step_input.examples));
    });
  }

  std::optional<PerReplica<B>> collect_next() {
    for (;;) {
      StepInput<B> step_input = read_own([&] { return prefetcher_->next(); });
      if (!step_input.has_data()) step_input.examples.local.clear();
      const auto agreed = coordinator_.agree(step_input.examples.local);
      if (!agreed.any_has_data) return std::nullopt;
      // All pieces of this step may be the empty last pieces of smaller batches.
      if (input_.has_shard() && agreed.examples == 0) continue;
      step_input.examples.global = agreed.examples;
      step_input.examples.local.resize(input_.devices.size(), 0);
      return PerReplica<B>(take_batches(std::move(step_input.batches)),
                           std::move(step_input.examples));
    }
  }

  /// The batches, ready for use on the caller's streams; empty ones for replicas without a batch.
  std::vector<B> take_batches(std::vector<std::optional<DeviceBatch<B>>> prepared) {
    prepared.resize(input_.devices.size());
    std::vector<std::optional<B>> batches(prepared.size());
    for (std::size_t i = 0; i < prepared.size(); ++i) {
      if (!prepared[i]) continue;
      batches[i] = std::move(*prepared[i]).use_on(input_.devices[i]);
      if (!empty_) empty_ = empty_copy(*batches[i]);
    }
    std::vector<B> all;
    for (std::size_t i = 0; i < batches.size(); ++i)
      all.push_back(batches[i] ? std::move(*batches[i]) : empty_for(i));
    return all;
  }

  B empty_for(std::size_t local) {
    if (!empty_ && input_.has_shard()) empty_ = empty_of_whole_dataset();
    check_state(empty_.has_value(), kNoData);
    const bool stays_on_host = input_.options.fetch == DeviceFetch::kStayOnHost &&
                               input_.options.placement == DatasetPlacement::kOnHost;
    return stays_on_host ? *empty_ : input::to_device(*empty_, input_.devices[local]);
  }
  /// A copy: a view would keep the batch's memory alive.
  static B empty_copy(const B& batch) {
    return input::each_tensor(input::examples_between(batch, 0, 0),
                              [](const at::Tensor& tensor) { return tensor.clone(); });
  }
  /// For a worker whose shard is empty: reads the structure of a batch from the whole dataset.
  std::optional<B> empty_of_whole_dataset() const {
    const std::optional<B> batch = input_.datasets.front().iterator().next();
    if (!batch) return std::nullopt;
    return empty_copy(prefetcher_->empty_like(*batch, 0).use_on(input_.devices.front()));
  }

  static constexpr const char* kInReplica =
      "DistributedIterator::next was called inside a replica, where every replica would read a "
      "batch for all: call it before Strategy::run, and pass the batch to run as an argument.";
  static constexpr const char* kNoData =
      "This worker's dataset has no batch while other workers' datasets have some, so the shape of "
      "an empty batch is unknown: give every worker at least one batch.";

  DistributedInput<B> input_;
  InputCoordinator coordinator_;
  std::unique_ptr<StepInputPrefetcher<B>> prefetcher_;  // a pointer: its thread refers to it
  std::optional<B> empty_;                              // a batch without examples
};

}  // namespace brigade::distribute
