#include "brigade/distribute/input/step_input.h"

#include <algorithm>
#include <exception>
#include <future>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/staging_thread.h"
#include "brigade/concurrency/thread_pool.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/iterator.h"
#include "brigade/data/runtime/autotune.h"
#include "brigade/distribute/input/input_coordinator.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/machine/cgroup.h"

namespace brigade::distribute {

std::int64_t DistributedInput::cardinality() const {
  std::int64_t elements = 0;
  for (const auto& dataset : datasets) {
    const std::int64_t own = dataset->cardinality();
    if (own < 0) return own;
    elements = std::max(elements, own);
  }
  if (takes_every_nth())
    return data::cardinality_of_shard(elements, layout.num_workers, layout.worker);
  const bool all_iterate_alike = kind == BatchKind::kGlobal && policy == AutoShardPolicy::kData;
  if (elements == 0 || all_iterate_alike) return elements;
  if (layout.is_independent ? has_shard() : layout.num_workers > 1) return data::kUnknown;
  if (is_split()) return elements;
  if (datasets.size() > 1) return elements;
  const auto replicas = static_cast<std::int64_t>(devices.size());
  return (elements + replicas - 1) / replicas;
}

DistributedInput resolved(DistributedInput input) {
  check_input_options(input.options, input.kind, input.layout.logical_replicas);
  check_argument(!input.datasets.empty(), "Input needs a dataset.");
  if (input.kind == BatchKind::kGlobal)
    input.policy =
        auto_shard_for(input.layout, input.options.auto_shard, input.datasets.front()->sharding());
  input.layout = with_replicas(std::move(input.layout), static_cast<int>(input.devices.size()));
  return input;
}

double cores_for_input(double cores, std::size_t cpu_replicas, std::size_t pipelines) {
  const double left = cores - static_cast<double>(cpu_replicas);
  return std::max(left, 1.0) / static_cast<double>(pipelines);
}

data::Tuning input_tuning(std::span<const c10::Device> replicas, std::size_t pipelines,
                          const std::filesystem::path& root) {
  const auto on_cpu = std::ranges::count_if(replicas, [](auto device) { return device.is_cpu(); });
  const auto runnable = static_cast<double>(data::usable_cores());
  const double cores = std::min(runnable, machine::cgroup_cpu_limit(root).value_or(runnable));
  return {.cpu_budget = cores_for_input(cores, static_cast<std::size_t>(on_cpu), pipelines)};
}

namespace {

/// The seed of a worker's iterators. Workers that are independent and read the same data read it in
/// different orders: in the same order they would compute the same gradients.
std::uint64_t seed_of(const DistributedInput& input, std::uint64_t seed) {
  const bool reads_all =
      input.kind == BatchKind::kPerReplica || input.policy == AutoShardPolicy::kOff;
  const bool is_mixed = input.layout.is_independent && reads_all && input.layout.worker > 0;
  return is_mixed ? base::mix_seed(seed, static_cast<std::uint64_t>(input.layout.worker)) : seed;
}

/// The parts of `batch` for the replicas `first`, `first + 1`, ... of `total`.
std::vector<std::any> parts_for(const BatchOps& ops, const std::any& batch,
                                const ReplicaRange& replicas) {
  const auto sizes = input::split_sizes(ops.examples_in(batch), replicas.total);
  const auto own = sizes.begin() + replicas.first;
  std::int64_t begin = std::accumulate(sizes.begin(), own, std::int64_t{0});
  std::vector<std::any> parts;
  for (auto size = own; size != own + replicas.local; begin += *size++)
    parts.push_back(ops.examples_between(batch, begin, begin + *size));
  return parts;
}

std::any to_device(const BatchOps& ops, const std::any& batch, c10::Device device) {
  return ops.each_tensor(batch, [device](const at::Tensor& tensor) {
    return input::tensor_to_device(tensor, device);
  });
}

/// Iterates over the batches of one pipeline in pieces. Its position can be saved between two
/// pieces of a batch.
class PieceIterator {
 public:
  /// Without `sizes` each piece is a whole batch.
  PieceIterator(const BatchOps& ops, data::Iterator<std::any> batches, PieceSizes sizes)
      : ops_(ops), batches_(std::move(batches)), sizes_of_(std::move(sizes)) {}

  /// The next piece, which may be empty; nullopt at the end.
  std::optional<std::any> next() {
    if (!sizes_of_) return batches_.next();
    while (next_piece_ == sizes_.size()) {
      if (!next_batch()) return std::nullopt;
    }
    const std::int64_t begin = examples_given_;
    examples_given_ += sizes_[next_piece_++];
    return ops_.examples_between(*batch_, begin, examples_given_);
  }

  /// Whole batches, between two of them.
  void skip_batches(int count) {
    if (count > 0) batches_.skip(static_cast<std::uint64_t>(count));
  }

  std::uint64_t epoch() const { return batches_.epoch(); }
  void start_next_epoch() {
    batches_.start_next_epoch();
    discard_batch();
    full_ = 0;
  }

  /// The position after the last piece that `next` returned.
  io::StateTree save() const {
    if (!sizes_of_) return batches_.save();
    const bool is_within = next_piece_ < sizes_.size();
    io::StateTree state;
    state[kPosition] = is_within ? before_ : batches_.save();
    state[kPieceIndex] = is_within ? next_piece_ : 0;
    state[kGiven] = is_within ? examples_given_ : 0;
    state[kFull] = full_;
    return state;
  }
  /// Moves to a saved position. If batches are split differently now, the rest of the batch is
  /// split in the new way. Throws kInvalidArgument for a position within a batch if batches are not
  /// split.
  void restore(const io::StateTree& state) {
    const bool is_piecewise = state.has(kPieceIndex);
    const auto piece_index = is_piecewise ? state.as_uint64(kPieceIndex) : 0;
    check_argument(piece_index == 0 || sizes_of_,
                   "The position is within a batch that was split into pieces, and batches are not "
                   "split into pieces here: use the same AutoShardPolicy as before, or start a new "
                   "epoch.");
    // A job may resume with more epochs, or with another number of replicas and matching batches.
    batches_.restore(is_piecewise ? state.at(kPosition) : state,
                     data::PipelineMatch::kIgnoreLengths);
    discard_batch();
    full_ = is_piecewise ? state.as_int64(kFull) : 0;
    if (piece_index > 0) restore_within(piece_index, state.as_int64(kGiven));
  }

 private:
  bool next_batch() {
    before_ = batches_.save();
    batch_ = batches_.next();
    if (!batch_) return false;
    const std::int64_t size = ops_.examples_in(*batch_);
    full_ = std::max(full_, size);
    sizes_ = sizes_of_(size, full_);
    next_piece_ = 0;
    examples_given_ = 0;
    return true;
  }
  void discard_batch() {
    batch_.reset();
    sizes_.clear();
    next_piece_ = 0;
    examples_given_ = 0;
  }
  void restore_within(std::size_t piece_index, std::int64_t given) {
    const bool has_batch = next_batch();
    const std::int64_t size = has_batch ? ops_.examples_in(*batch_) : 0;
    check_argument(given >= 0 && given <= size,
                   "The position is within a batch that the data does not have: was it saved from "
                   "other data?");
    if (piece_index <= sizes_.size() &&
        std::accumulate(sizes_.begin(), sizes_.begin() + static_cast<std::ptrdiff_t>(piece_index),
                        std::int64_t{0}) == given) {
      next_piece_ = piece_index;
    } else {
      sizes_ = sizes_of_(size - given, full_);
    }
    examples_given_ = given;
  }

  static constexpr std::string_view kPosition = "position";
  static constexpr std::string_view kPieceIndex = "turn";
  static constexpr std::string_view kGiven = "given";
  static constexpr std::string_view kFull = "full";

  BatchOps ops_;
  data::Iterator<std::any> batches_;
  PieceSizes sizes_of_;
  io::StateTree before_;             // the position before the batch
  std::optional<std::any> batch_;    // the one being iterated over
  std::vector<std::int64_t> sizes_;  // of its pieces
  std::size_t next_piece_ = 0;       // the index of the next piece
  std::int64_t examples_given_ = 0;  // examples in the pieces before it
  std::int64_t full_ = 0;            // the largest batch of this epoch so far
};

using OwnBatches = std::vector<std::optional<std::any>>;  // [replica]; unset where the data ended

bool has_batch(const auto& batch) {
  return batch.has_value();
}

/// What this worker has for the next step, before the workers agree on it.
struct OwnStep {
  std::vector<std::optional<DeviceBatch>> batches;  // [replica]; unset where the data ended
  ExampleCounts examples;                           // `global` is set only for split batches
  PerReplica<std::any>::OfAny of_any;               // set if gradients are audited
  bool is_last = false;                             // the data ends after this step
  std::exception_ptr error;                         // set instead of `batches` if reading failed
  std::optional<io::StateTree> position;            // after it, if prefetched and not cancelled

  bool has_data() const {
    return std::ranges::any_of(batches, has_batch<std::optional<DeviceBatch>>);
  }
};

WorkerStep for_workers(const OwnStep& step) {
  using State = WorkerStep::State;
  if (step.error) return {.state = State::kFailed};
  if (!step.has_data()) return {.state = State::kHasEnded};
  const std::vector<std::int64_t>& examples = step.examples.local;
  return {.state = State::kHasBatch,
          .examples = std::accumulate(examples.begin(), examples.end(), std::int64_t{0})};
}

/// Replicas by their device: [device][..].
std::vector<std::vector<std::size_t>> by_device(std::span<const c10::Device> devices) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto same = std::ranges::find_if(
        groups, [&](const auto& group) { return devices[group.front()] == devices[i]; });
    if (same == groups.end()) {
      groups.push_back({i});
    } else {
      same->push_back(i);
    }
  }
  return groups;
}

/// Pinned if batches are copied to a GPU.
data::BatchMemory batch_memory_of(const DistributedInput& input) {
  const bool is_copied = input.options.fetch == DeviceFetch::kToReplica &&
                         input.options.placement == DatasetPlacement::kOnHost;
  const bool has_gpu = std::ranges::any_of(input.devices, [](auto each) { return !each.is_cpu(); });
  return is_copied && has_gpu ? data::BatchMemory::kPinned : data::BatchMemory::kPageable;
}

/// The streams of an input's transfers; null: it copies on the caller's.
std::shared_ptr<const CopyStreams> streams_of(const DistributedInput& input, std::size_t depth) {
  if (depth == 0) return nullptr;
  return input.copy_streams ? input.copy_streams : make_copy_streams(input.devices);
}

}  // namespace

PerReplica<std::any> split_for_replicas(const BatchOps& ops, const std::any& batch,
                                        const ReplicaRange& replicas,
                                        std::span<const c10::Device> devices) {
  std::vector<std::any> batches = parts_for(ops, batch, replicas);
  ExampleCounts counts{.local = {}, .global = ops.examples_in(batch)};
  for (std::size_t i = 0; i < batches.size(); ++i) {
    counts.local.push_back(ops.examples_in(batches[i]));
    if (!devices[i].is_cpu()) batches[i] = to_device(ops, batches[i], devices[i]);
  }
  return PerReplica<std::any>(std::move(batches), std::move(counts));
}

class StepInput::Impl {
 public:
  Impl(const DistributedInput& input, data::IteratorOptions start,
       const data::StagesOptions& stages)
      : input_(input),
        coordinator_(input.layout, input.kind == BatchKind::kPerReplica || input.has_shard()
                                       ? InputSource::kOwn
                                       : InputSource::kSameForAll),
        depth_(static_cast<std::size_t>(batches_ahead(input.options, input.devices))),
        cancellation_(depth_ > 0 ? start.cancel : std::nullopt),
        transfer_(std::make_shared<DeviceTransfer>(input.ops, input.devices, input.options,
                                                   input.function, streams_of(input, depth_))),
        devices_(by_device(input.devices)),
        seed_(seed_of(input, start.seed)) {
    start.seed = seed_;
    if (depth_ > 0) start.cancel = cancellation_.token();
    start.shard = shard_of(input.layout, input.policy);
    start.batch_memory = batch_memory_of(input);
    // Workers that each take a part of every batch must make identical batches, and so must a job
    // with logical replicas on any number of workers.
    const bool reads_the_same =
        input.layout.logical_replicas > 0 ||
        (input.layout.num_workers > 1 && input.policy == AutoShardPolicy::kData);
    if (input.kind == BatchKind::kGlobal && reads_the_same) start.order = data::Order::kInOrder;
    const auto sizes =
        input.piece_sizes ? input.piece_sizes : piece_sizes(input.policy, input.layout);
    for (const auto& dataset : input.datasets) {
      start.stages = stages_.emplace_back(std::make_shared<data::Stages>(stages));
      iterators_.emplace_back(input.ops, data::Iterator<std::any>(dataset, start), sizes);
      // The default where neither `stages` nor the dataset's options set a budget.
      start.stages->set_default_tuning(input_tuning(input.devices, input.datasets.size()));
    }
    discard_collected();
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

  io::StateTree own_position() const { return position_ ? *position_ : save_own(); }
  io::StateTree save_at(const io::StateTree& position) const { return coordinator_.save(position); }
  void restore(const io::StateTree& state) {
    coordinator_.forget_next();
    const io::StateTree& own = coordinator_.restore(state);
    if (thread_) {  // undo the prefetching first: if the state is refused, `next` must still work
      thread_ = nullptr;
      restore_own(*position_);
    }
    position_.reset();
    restore_own(own);
    record_reached_epoch();
  }
  std::uint64_t epoch() const { return iterators_.front().epoch(); }
  void start_next_epoch() {
    coordinator_.forget_next();
    thread_ = nullptr;
    position_.reset();
    for (PieceIterator& iterator : iterators_) iterator.start_next_epoch();
    discard_collected();
    step_ = 0;
    record_reached_epoch();
  }

  std::vector<data::StageStats> stats() const {
    if (stages_.size() == 1) return stages_.front()->stats();
    std::vector<data::StageStats> all;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      for (data::StageStats& stage : stages_[i]->stats()) {
        stage.name = base::str_cat("replica ", input_.layout.replicas.first + static_cast<int>(i),
                                   ": ", stage.name);
        all.push_back(std::move(stage));
      }
    }
    return all;
  }

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
    OwnBatches own(replicas());
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
    if (!empty_.has_value() && input_.has_shard()) empty_ = empty_of_whole_dataset();
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
  /// For a worker whose shard is empty: reads the structure of a batch from the whole dataset.
  std::any empty_of_whole_dataset() const {
    const std::optional<std::any> batch =
        data::Iterator<std::any>(input_.datasets.front(), {}).next();
    if (!batch) return {};
    DeviceBatch empty =
        transfer_->transfer(input_.ops.examples_between(*batch, 0, 0), 0, id_of(0, step_));
    return empty_copy(std::move(empty).use_on(input_.devices.front(), input_.ops));
  }

  // Prefetching.

  /// What this worker has for the next step. At the end of the data, and after it, no batches.
  OwnStep next_own() {
    OwnStep step = depth_ == 0 ? read() : take_prefetched();
    if (step.error) std::rethrow_exception(step.error);
    return step;
  }
  OwnStep take_prefetched() {
    if (!thread_) {
      if (position_) return {};  // the end
      position_ = save_own();
      if (devices_.size() > 1 && !device_threads_) {
        device_threads_ = std::make_unique<concurrency::ThreadPool>(
            concurrency::ThreadPoolOptions{.threads = devices_.size() - 1, .name = "input copies"});
      }
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
    OwnStep step = read();
    const bool is_cancelled = step.error && cancellation_.token().is_cancelled();
    if (!is_cancelled) step.position = save_own();
    is_over = step.is_last || is_cancelled;
    return step;
  }

  // Reading.

  OwnStep read() {
    OwnStep step;
    try {
      OwnBatches batches = input_.is_split() ? read_split(step) : read_collected(step);
      const std::uint64_t number = step_;
      if (std::ranges::any_of(batches, has_batch<std::optional<std::any>>)) ++step_;
      for (const auto& batch : batches)
        step.examples.local.push_back(batch ? input_.ops.examples_in(*batch) : 0);
      step.batches = transferred(std::move(batches), number);
    } catch (...) {
      step.batches.clear();
      step.error = std::current_exception();
    }
    return step;
  }
  /// With prefetching each device has a thread, because copies into pinned memory take its time.
  std::vector<std::optional<DeviceBatch>> transferred(OwnBatches batches, std::uint64_t step) {
    std::vector<std::optional<DeviceBatch>> made(replicas());
    const auto transfer = [&](const std::vector<std::size_t>& of_device) {
      for (const std::size_t i : of_device) {
        if (batches[i]) made[i] = transfer_->transfer(std::move(*batches[i]), i, id_of(i, step));
      }
    };
    const std::size_t elsewhere = device_threads_ ? devices_.size() - 1 : 0;
    std::vector<std::future<void>> transfers;
    for (std::size_t i = 0; i < elsewhere; ++i) {
      auto task = std::make_shared<std::packaged_task<void()>>(
          [&, number = i + 1] { transfer(devices_[number]); });
      transfers.push_back(task->get_future());
      device_threads_->submit([task] { (*task)(); });
    }
    std::exception_ptr failure;
    const auto keep_failure = [&](const auto& work) {
      try {
        work();
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    };
    for (std::size_t i = 0; i < devices_.size() - elsewhere; ++i)
      keep_failure([&] { transfer(devices_[i]); });
    for (std::future<void>& each : transfers) keep_failure([&] { each.get(); });
    if (failure) std::rethrow_exception(failure);
    return made;
  }
  /// A global batch, split among the replicas of all workers; with kOff among this worker's only.
  OwnBatches read_split(OwnStep& step) {
    const std::optional<std::any> batch = next_global_batch();
    step.is_last = !batch;
    if (!batch) return OwnBatches(replicas());
    step.examples.global = input_.ops.examples_in(*batch);
    if (input_.layout.audits_gradients) step.of_any = parts_of_any(*batch);
    const auto count = static_cast<int>(replicas());
    ReplicaRange own{.first = input_.layout.replicas.first,
                     .local = count,
                     .total = input_.layout.replicas.total};
    if (input_.policy == AutoShardPolicy::kOff && !input_.layout.is_independent) {
      own = {.first = 0, .local = count, .total = count};
      step.examples.global *= input_.layout.num_workers;  // every worker trains on all examples
    }
    OwnBatches batches;
    for (std::any& part : parts_for(input_.ops, *batch, own)) batches.emplace_back(std::move(part));
    return batches;
  }
  /// Makes the parts of any replica from a global batch that all workers have.
  PerReplica<std::any>::OfAny parts_of_any(const std::any& batch) const {
    return [batch, id = id_of(0, step_), transfer = transfer_, ops = input_.ops,
            total = input_.layout.replicas.total](int replica) {
      ReplicaBatchId of_replica = id;
      of_replica.replica = replica;
      std::vector<std::any> parts =
          parts_for(ops, batch, {.first = replica, .local = 1, .total = total});
      // Audits are of CPUs, on which all devices have the same memory.
      return transfer->transfer(std::move(parts.front()), 0, of_replica).batch;
    };
  }
  /// Of N workers that take every N-th batch, each passes over the others' before and after its
  /// own. So a position is that of all workers, and of any other strategy.
  std::optional<std::any> next_global_batch() {
    PieceIterator& batches = iterators_.front();
    if (!input_.takes_every_nth()) return batches.next();
    batches.skip_batches(input_.layout.worker);
    std::optional<std::any> own = batches.next();
    if (own) batches.skip_batches(input_.layout.num_workers - input_.layout.worker - 1);
    return own;
  }
  /// The next batch or piece of each replica, until this worker's data ends.
  OwnBatches read_collected(OwnStep& step) {
    if (is_between_steps() && replicas() > 1) before_ = save_iterators();
    for (; num_collected_ < replicas(); ++num_collected_) {
      collected_[num_collected_] = iterators_[iterators_.size() > 1 ? num_collected_ : 0].next();
    }
    OwnBatches batches = std::exchange(collected_, OwnBatches(replicas()));
    num_collected_ = 0;
    step.is_last = iterators_.size() > 1
                       ? std::ranges::none_of(batches, has_batch<std::optional<std::any>>)
                       : !batches.back().has_value();
    return batches;
  }
  ReplicaBatchId id_of(std::size_t local, std::uint64_t step) const {
    return {.seed = seed_,
            .replica = input_.layout.first_stream() + static_cast<int>(local),
            .epoch = epoch(),
            .step = step};
  }
  bool is_between_steps() const { return num_collected_ == 0; }
  void discard_collected() {
    collected_ = OwnBatches(replicas());
    num_collected_ = 0;
  }

  // This worker's position.

  /// The position after the last complete step that was read.
  io::StateTree save_own() const {
    io::StateTree position = is_between_steps() ? save_iterators() : before_;
    if (!draws()) return position;
    io::StateTree state;
    state[kMapped] = std::move(position);
    state[kStep] = step_;
    state[kSeed] = seed_;
    return state;
  }
  /// Throws kInvalidArgument, and does not move, if the position is not one of this input.
  void restore_own(const io::StateTree& state) {
    const bool is_mapped = state.has(kMapped);
    check_argument(is_mapped == draws(),
                   is_mapped
                       ? "The position was saved from a dataset with map_on_replica, but this "
                         "dataset has no map_on_replica that draws random numbers: make the input "
                         "as before, or start a new epoch."
                       : "The position was saved from a dataset without map_on_replica, but "
                         "this dataset has one that may draw random numbers: make the input as "
                         "before, or start a new epoch.");
    const std::uint64_t step = is_mapped ? state.as_uint64(kStep) : 0;
    const std::uint64_t seed = is_mapped ? state.as_uint64(kSeed) : seed_;
    restore_iterators(is_mapped ? state.at(kMapped) : state);
    discard_collected();
    step_ = step;
    seed_ = seed;
  }
  bool draws() const { return transfer_->has_function() && input_.function_draws; }
  io::StateTree save_iterators() const {
    if (iterators_.size() == 1) return iterators_.front().save();
    io::StateTree state;
    state[kReplicas] = io::StateTree::list();
    for (const PieceIterator& iterator : iterators_) state[kReplicas].push_back(iterator.save());
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
  static constexpr const char* kInReplica =
      "DistributedIterator::next was called inside a replica, where every replica would read a "
      "batch for all: call it before Strategy::run, and pass the batch to run as an argument.";
  static constexpr const char* kNoData =
      "This worker's dataset has no batch while other workers' datasets have some, so the shape of "
      "an empty batch is unknown: give every worker at least one batch.";

  std::shared_ptr<const CreatedState> created_;  // null if the input has no registry
  const DistributedInput input_;
  InputCoordinator coordinator_;
  const std::size_t depth_;                      // steps to prefetch
  const concurrency::LinkedToken cancellation_;  // by the destructor or by the token of `start`
  std::any empty_;                               // a batch without examples, once one is known

  // Used by the thread while it runs:
  std::shared_ptr<const DeviceTransfer> transfer_;           // shared with batches, for audits
  const std::vector<std::vector<std::size_t>> devices_;      // replicas by device
  std::unique_ptr<concurrency::ThreadPool> device_threads_;  // for all but the first; null: none
  std::vector<std::shared_ptr<data::Stages>> stages_;        // [iterator]
  std::vector<PieceIterator> iterators_;                     // one, or one for each replica
  std::uint64_t seed_;
  std::uint64_t step_ = 0;  // steps of this epoch
  io::StateTree before_;    // the iterators' position before the step being collected
  OwnBatches collected_;    // of that step: the first num_collected_ replicas' batches
  std::size_t num_collected_ = 0;

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
