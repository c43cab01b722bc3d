#include "brigade/distribute/input/step_input.h"

#include <exception>
#include <numeric>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/staging_thread.h"
#include "brigade/distribute/input/input_coordinator.h"
#include "brigade/distribute/input/split_for_replicas.h"
#include "brigade/distribute/input/step_reader.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

constexpr const char* kInReplica =
    "DistributedIterator::next was called inside a replica, where every replica would read a "
    "batch for all: call it before Strategy::run, and pass the batch to run as an argument.";
constexpr const char* kNoData =
    "This worker's dataset has no batch while other workers' datasets have some, so the shape of "
    "an empty batch is unknown: give every worker at least one batch.";

WorkerStep for_workers(const OwnStep& step) {
  using State = WorkerStep::State;
  if (step.error) return {.state = State::kFailed};
  if (!step.has_data()) return {.state = State::kHasEnded};
  const std::vector<std::int64_t>& examples = step.examples.local;
  return {.state = State::kHasBatch,
          .examples = std::accumulate(examples.begin(), examples.end(), std::int64_t{0})};
}

/// The streams of an input's transfers; null: it copies on the caller's.
std::shared_ptr<const CopyStreams> streams_of(const DistributedInput& input, std::size_t depth) {
  if (depth == 0) return nullptr;
  return input.copy_streams ? input.copy_streams : make_copy_streams(input.devices);
}

data::IteratorOptions with_cancel(data::IteratorOptions start,
                                  std::optional<concurrency::CancelToken> cancel) {
  start.cancel = std::move(cancel);
  return start;
}

}  // namespace

class StepInput::Impl {
 public:
  Impl(const DistributedInput& input, const data::IteratorOptions& start,
       const data::StagesOptions& stages)
      : input_(input),
        coordinator_(input.layout, input.kind == BatchKind::kPerReplica || input.has_shard()
                                       ? InputSource::kOwn
                                       : InputSource::kSameForAll),
        depth_(static_cast<std::size_t>(batches_ahead(input.options, input.devices))),
        cancellation_(depth_ > 0 ? start.cancel : std::nullopt),
        reader_(input, depth_ > 0 ? with_cancel(start, cancellation_.token()) : start, stages,
                streams_of(input, depth_)) {
    if (!input_.created) return;
    created_ = std::make_shared<CreatedState>(
        CreatedState{.save = [this] { return save_at(own_position()); },
                     .restore = [this](const io::StateTree& state) { restore(state); }});
    input_.created->add(created_);
  }
  ~Impl() { cancellation_.cancel(); }  // the thread may be waiting for data
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::optional<PerReplica<std::any>> next() {
    check_state(in_cross_replica_context(), kInReplica);
    const StepMeter::InputScope waiting_for_input(input_.meter.get());
    if (coordinator_.must_compare()) coordinator_.compare(description());
    return input_.is_split() ? next_split() : next_agreed();
  }

  io::StateTree own_position() const { return position_ ? *position_ : reader_.save(); }
  io::StateTree save_at(const io::StateTree& position) const { return coordinator_.save(position); }
  void restore(const io::StateTree& state) {
    coordinator_.forget_next();
    const io::StateTree& own = coordinator_.restore(state);
    if (thread_) {  // undo the prefetching first: if the state is refused, `next` must still work
      thread_ = nullptr;
      reader_.restore(*position_);
    }
    position_.reset();
    reader_.restore(own);
    record_reached_epoch();
  }
  std::uint64_t epoch() const { return reader_.epoch(); }
  void start_next_epoch() {
    coordinator_.forget_next();
    thread_ = nullptr;
    position_.reset();
    reader_.start_next_epoch();
    record_reached_epoch();
  }

  std::vector<data::StageStats> stats() const { return reader_.stats(); }

 private:
  std::size_t replicas() const { return input_.devices.size(); }

  /// So that iterators made later start at later epochs.
  void record_reached_epoch() {
    if (input_.epochs) input_.epochs->record_epoch(epoch());
  }
  InputDescription description() const {
    const data::Node<std::any>& dataset = *input_.datasets.front();
    return {.kind = input_.kind,
            .replication = input_.options.replication,
            .policy = input_.policy,
            .files = dataset.sharding().file_list_hash,
            .pipeline = dataset.pipeline(),
            .cardinality = dataset.cardinality(),
            .epoch = epoch()};
  }

  // Agreeing with the other workers.

  /// Calls `read`, which reads this worker's own data. If it throws, reports that to the others.
  template <class Read>
  auto report_errors_of(const Read& read) {
    try {
      return read();
    } catch (const std::exception& error) {
      coordinator_.fail(std::string(base::without_stack_trace(error.what())));
      throw;
    }
  }
  std::optional<PerReplica<std::any>> next_split() {
    return report_errors_of([&]() -> std::optional<PerReplica<std::any>> {
      OwnStep step = next_own();
      if (!step.has_data()) return std::nullopt;
      return PerReplica<std::any>(take_batches(std::move(step.batches)), std::move(step.examples),
                                  std::move(step.of_any));
    });
  }
  std::optional<PerReplica<std::any>> next_agreed() {
    for (;;) {
      OwnStep step = report_errors_of([&] { return next_own(); });
      const auto agreed = coordinator_.agree(for_workers(step), [this] { return look_ahead(); });
      if (!step.has_data()) step.examples.local.clear();
      if (!agreed.any_has_data) return std::nullopt;
      // All pieces of this step may be the empty last pieces of smaller batches.
      if (input_.has_shard() && agreed.examples == 0) continue;
      step.examples.global = agreed.examples;
      step.examples.local.resize(replicas(), 0);
      return PerReplica<std::any>(take_batches(std::move(step.batches)), std::move(step.examples));
    }
  }

  /// The batches, ready for use on the caller's streams; empty ones for replicas without a batch.
  std::vector<std::any> take_batches(std::vector<std::optional<DeviceBatch>> prepared) {
    prepared.resize(replicas());
    std::vector<std::optional<std::any>> own(replicas());
    for (std::size_t i = 0; i < replicas(); ++i) {
      if (!prepared[i]) continue;
      own[i] = std::move(*prepared[i]).use_on(input_.devices[i], input_.ops);
      if (!empty_.has_value()) empty_ = empty_copy(*own[i]);
    }
    std::vector<std::any> batches;
    for (std::size_t i = 0; i < replicas(); ++i)
      batches.push_back(own[i] ? std::move(*own[i]) : empty_for(i));
    return batches;
  }
  std::any empty_for(std::size_t local) {
    if (!empty_.has_value() && input_.has_shard()) {
      const std::any empty = reader_.empty_batch();
      if (empty.has_value()) empty_ = empty_copy(empty);
    }
    check_state(empty_.has_value(), kNoData);
    const bool stays_on_host = input_.options.fetch == DeviceFetch::kStayOnHost &&
                               input_.options.placement == DatasetPlacement::kOnHost;
    return stays_on_host ? empty_ : to_device(input_.ops, empty_, input_.devices[local]);
  }
  /// A copy: a view would keep the batch's memory alive.
  std::any empty_copy(const std::any& batch) const {
    return input_.ops.each_tensor(input_.ops.examples_between(batch, 0, 0),
                                  [](const at::Tensor& tensor) { return tensor.clone(); });
  }

  // Prefetching.

  /// What this worker has for the next step. At the end of the data, and after it, no batches.
  OwnStep next_own() {
    OwnStep step = depth_ == 0 ? reader_.read() : take_prefetched();
    if (step.error) std::rethrow_exception(step.error);
    return step;
  }
  OwnStep take_prefetched() {
    if (!thread_) {
      if (position_) return {};  // the end
      position_ = reader_.save();
      reader_.copy_in_parallel();
      thread_ = std::make_unique<concurrency::StagingThread<OwnStep>>(
          concurrency::StagingThreadOptions{.name = "input prefetch", .depth = depth_},
          [this, is_over = false]() mutable { return prefetch(is_over); });
    }
    std::optional<OwnStep> step = thread_->next();
    if (!step) cancellation_.token().throw_if_cancelled("input prefetch");
    check_state(step.has_value(), "The input's prefetching ended before the data did.");
    if (step->position) position_ = std::move(step->position);
    if (step->is_last) thread_ = nullptr;
    return std::move(*step);
  }
  /// What the others need to know of the next step, if this worker knows it by now. Called by the
  /// thread of a call between the workers, never at the same time as another function of this.
  std::optional<WorkerStep> look_ahead() const {
    const bool has_ended = !thread_ && position_;
    if (has_ended) return WorkerStep{.state = WorkerStep::State::kHasEnded};
    if (!thread_) return std::nullopt;
    std::optional<WorkerStep> next;
    thread_->look_at_next([&next](const OwnStep* step) {
      next = step ? for_workers(*step) : WorkerStep{.state = WorkerStep::State::kFailed};
    });
    return next;
  }
  std::optional<OwnStep> prefetch(bool& is_over) {
    if (is_over) return std::nullopt;
    OwnStep step = reader_.read();
    const bool is_cancelled = step.error && cancellation_.token().is_cancelled();
    if (!is_cancelled) step.position = reader_.save();
    is_over = step.is_last || is_cancelled;
    return step;
  }

  std::shared_ptr<const CreatedState> created_;  // null if the input has no registry
  const DistributedInput input_;
  InputCoordinator coordinator_;
  const std::size_t depth_;                      // steps to prefetch
  const concurrency::LinkedToken cancellation_;  // by the destructor or by the token of `start`
  std::any empty_;                               // a batch without examples, once one is known
  StepReader reader_;                            // used by the thread while it runs

  std::optional<io::StateTree> position_;  // after the last `next`; set once the thread has started
  std::unique_ptr<concurrency::StagingThread<OwnStep>> thread_;  // last: joined first
};

StepInput::StepInput(const DistributedInput& input, const data::IteratorOptions& start,
                     const data::StagesOptions& stages)
    : impl_(std::make_unique<Impl>(input, start, stages)) {}
StepInput::StepInput(StepInput&&) noexcept = default;
StepInput& StepInput::operator=(StepInput&&) noexcept = default;
StepInput::~StepInput() = default;

std::optional<PerReplica<std::any>> StepInput::next() {
  return impl_->next();
}
io::StateTree StepInput::own_position() const {
  return impl_->own_position();
}
io::StateTree StepInput::save_at(const io::StateTree& own_position) const {
  return impl_->save_at(own_position);
}
void StepInput::restore(const io::StateTree& state) {
  impl_->restore(state);
}
std::uint64_t StepInput::epoch() const {
  return impl_->epoch();
}
void StepInput::start_next_epoch() {
  impl_->start_next_epoch();
}
std::vector<data::StageStats> StepInput::stats() const {
  return impl_->stats();
}

}  // namespace brigade::distribute
