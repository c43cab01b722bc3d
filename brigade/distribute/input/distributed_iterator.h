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
#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/input/input_coordinator.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/input/step_input_reader.h"
#include "brigade/distribute/input/step_input_prefetcher.h"
#include "brigade/distribute/step_meter.h"
#include "brigade/input/split.h"
#include "brigade/input/tensor_structure.h"  // how batches of tensors come apart
#include "brigade/input/to_device.h"
#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// This process's replicas' shares of a global batch, on their devices, with all replicas' count of
/// examples. By `input::split_sizes` over the replicas of all workers.
template <class B>
PerReplica<B> split_for_replicas(const B& batch, const ReplicaRange& replicas,
                  std::span<const c10::Device> devices) {
  std::vector<B> all = input::split(batch, replicas.total);
  std::vector<B> batches;
  ExampleCounts counts{.local = {}, .global = input::examples_in(batch)};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    B& share = all[static_cast<std::size_t>(replicas.first) + i];
    counts.local.push_back(input::examples_in(share));
    batches.push_back(devices[i].is_cpu() ? std::move(share) : input::to_device(share, devices[i]));
  }
  return PerReplica<B>(std::move(batches), std::move(counts));
}

/// The rest of a walk over a distributed dataset: `next` gives each replica its share of one global
/// batch, on its device.
///
/// Shares come by `input::split_sizes`: sizes differ by at most one, the larger first. At an uneven
/// end nothing is lost: a replica that is left without examples gets a batch of none, and the end
/// comes when all are without, in every worker. Leaving the loop early, or destroying the iterator,
/// stops its threads.
///
/// Where a replica is on a GPU, or `InputOptions::per_replica_buffer_size` says so, the next
/// batches are made on a thread of the iterator's own while the step computes, and copied by
/// streams of their own: see StepInputPrefetcher. The order, the end, errors and saved positions are the
/// same.
///
/// With several workers that share the dataset out by data, each walks over the same global batches
/// and takes its replicas' shares; nothing is sent. Where every worker has data of its own (by
/// file, by hint, or from a function), `next`, `save` and `restore` are collectives of the workers:
/// they agree in each step on who still has data. The first `next` is a collective always: the
/// workers compare what they share out (`check_same_input`).
///
/// An error of one worker's data is thrown there as it is, and ends the step for all: the others
/// get kAborted naming that worker, from their `next` where they agree in it, or from the
/// `Strategy::run` in which they wait for its gradients. The step's batches count as taken.
///
/// Thread-safety: one thread at a time, outside of replicas; `stats` from any.
template <class B>
class DistributedIterator {
 public:
  /// A walk over the input from `start` on, whose steps are measured and tuned as `stages` say.
  DistributedIterator(DistributedInput<B> input, const data::IteratorOptions& start,
                      const data::StagesOptions& stages = {})
      : input_(complete(std::move(input))),
        coordinator_(input_.layout, input_.kind == BatchKind::kPerReplica || input_.has_shard()
                                 ? InputSource::kOwn
                                 : InputSource::kSameForAll),
        prefetcher_(std::make_unique<StepInputPrefetcher<B>>(input_, start, stages)) {}

  /// The replicas' shares of the next global batch, with their counts of examples, or nothing at
  /// the end. Throws kFailedPrecondition in a replica, and kInvalidArgument in all workers where
  /// their inputs do not go together.
  std::optional<PerReplica<B>> next() {
    check_state(in_cross_replica_context(), kInReplica);
    const StepMeter::InputScope waiting_for_input(input_.meter.get());
    if (coordinator_.must_compare()) coordinator_.compare(nature());
    return input_.is_split() ? split_next() : collect_next();
  }

  /// The position behind the last global batch that `next` returned, and going on there (see
  /// data::Iterator).
  io::StateTree save() const { return coordinator_.save(prefetcher_->save()); }
  void restore(const io::StateTree& state) {
    prefetcher_->restore(coordinator_.restore(state));
    count_epoch();
  }
  std::uint64_t epoch() const { return prefetcher_->epoch(); }
  void start_next_epoch() {
    prefetcher_->start_next_epoch();
    count_epoch();
  }

  /// What each step of this worker's input did since the walk began, sources first, for
  /// `data::describe` and `data::bottleneck`: all steps if `DistributedIteratorOptions::stages` asks
  /// for kAll, otherwise those that `kAutotune` adjusts. Where each replica has a pipeline of its
  /// own, one behind the other, with "replica 3: " before the names. For how long the replicas
  /// waited, see `Strategy::step_times`.
  std::vector<data::StageStats> stats() const { return prefetcher_->stats(); }

 private:
  static DistributedInput<B> complete(DistributedInput<B> input) {
    check_argument(!input.datasets.empty(), "Input needs a dataset.");
    input.layout = with_replicas(std::move(input.layout), static_cast<int>(input.devices.size()));
    return input;
  }

  /// Iterators that are made later have later epochs.
  void count_epoch() {
    if (input_.epochs) input_.epochs->has_reached(prefetcher_->epoch());
  }

  InputDescription nature() const {
    const data::Dataset<B>& dataset = input_.datasets.front();
    return {.kind = input_.kind,
            .replication = input_.options.replication,
            .policy = input_.policy,
            .files = dataset.sharding().list,
            .pipeline = dataset.node()->pipeline(),
            .cardinality = dataset.cardinality(),
            .epoch = prefetcher_->epoch()};
  }

  /// What `read` returns of this worker's own data; where it throws, the others are told.
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
      return PerReplica<B>(received(std::move(step_input.batches)), std::move(step_input.examples));
    });
  }

  std::optional<PerReplica<B>> collect_next() {
    for (;;) {
      StepInput<B> step_input = read_own([&] { return prefetcher_->next(); });
      if (!step_input.has_data()) step_input.examples.local.clear();
      const auto agreed = coordinator_.agree(step_input.examples.local);
      if (!agreed.any_has_data) return std::nullopt;
      // All pieces may have been ends of smaller batches.
      if (input_.has_shard() && agreed.examples == 0) continue;
      step_input.examples.global = agreed.examples;
      step_input.examples.local.resize(input_.devices.size(), 0);
      return PerReplica<B>(received(std::move(step_input.batches)), std::move(step_input.examples));
    }
  }

  /// The shares, for use on the caller's streams; batches of none for replicas without one.
  std::vector<B> received(std::vector<std::optional<DeviceBatch<B>>> placed) {
    placed.resize(input_.devices.size());
    std::vector<std::optional<B>> batches(placed.size());
    for (std::size_t i = 0; i < placed.size(); ++i) {
      if (!placed[i]) continue;
      batches[i] = std::move(*placed[i]).received(input_.devices[i]);
      if (!none_) none_ = none_of(*batches[i]);
    }
    std::vector<B> all;
    for (std::size_t i = 0; i < batches.size(); ++i)
      all.push_back(batches[i] ? std::move(*batches[i]) : none_for(i));
    return all;
  }

  B none_for(std::size_t local) {
    if (!none_ && input_.has_shard()) none_ = none_of_the_whole();
    check_state(none_.has_value(), kNoData);
    const bool stays = input_.options.fetch == DeviceFetch::kStayOnHost &&
                       input_.options.placement == DatasetPlacement::kOnHost;
    return stays ? *none_ : input::to_device(*none_, input_.devices[local]);
  }
  /// With memory of its own: else it would keep the batch's.
  static B none_of(const B& batch) {
    return input::each_tensor(input::examples_between(batch, 0, 0),
                              [](const at::Tensor& tensor) { return tensor.clone(); });
  }
  /// For a worker whose shard is empty: the others' data shows what a batch looks like.
  std::optional<B> none_of_the_whole() const {
    const std::optional<B> batch = input_.datasets.front().iterator().next();
    if (!batch) return std::nullopt;
    return none_of(prefetcher_->empty_like(*batch, 0).received(input_.devices.front()));
  }

  static constexpr const char* kInReplica =
      "DistributedIterator::next was called inside a replica, where every replica would draw a "
      "batch for all: draw it before Strategy::run, and give it to run as an argument.";
  static constexpr const char* kNoData =
      "This worker's dataset has no batch at all while others have some, so it does not know what "
      "an empty one looks like: give every worker at least one.";

  DistributedInput<B> input_;
  InputCoordinator coordinator_;
  std::unique_ptr<StepInputPrefetcher<B>> prefetcher_;  // its thread knows where it lies
  std::optional<B> none_;                 // a batch without examples
};

}  // namespace brigade::distribute
