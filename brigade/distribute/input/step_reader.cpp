#include "brigade/distribute/input/step_reader.h"

#include <algorithm>
#include <future>
#include <string_view>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/first_error.h"
#include "brigade/distribute/input/split_for_replicas.h"

namespace brigade::distribute {

namespace {

constexpr std::string_view kMapped = "mapped_shares";
constexpr std::string_view kStep = "step";
constexpr std::string_view kSeed = "seed";
constexpr std::string_view kReplicas = "replicas";

/// The seed of a worker's iterators. Workers that are independent and read the same data read it in
/// different orders: in the same order they would compute the same gradients.
std::uint64_t seed_of(const DistributedInput& input, std::uint64_t seed) {
  const bool reads_all =
      input.kind == BatchKind::kPerReplica || input.policy == AutoShardPolicy::kOff;
  const bool is_mixed = input.layout.is_independent && reads_all && input.layout.worker > 0;
  return is_mixed ? base::mix_seed(seed, static_cast<std::uint64_t>(input.layout.worker)) : seed;
}

/// Whether workers make identical batches: those that each take a part of every batch must, and so
/// must a job with logical replicas on any number of workers.
bool reads_the_same(const DistributedInput& input) {
  const WorkerLayout& layout = input.layout;
  const bool divides_batches = layout.num_workers > 1 && input.policy == AutoShardPolicy::kData;
  return input.kind == BatchKind::kGlobal && (layout.logical_replicas > 0 || divides_batches);
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

bool has_batch(const auto& batch) {
  return batch.has_value();
}

}  // namespace

bool OwnStep::has_data() const {
  return std::ranges::any_of(batches, has_batch<std::optional<DeviceBatch>>);
}

StepReader::StepReader(const DistributedInput& input, data::IteratorOptions start,
                       const data::StagesOptions& stages,
                       std::shared_ptr<const CopyStreams> streams)
    : input_(input),
      transfer_(std::make_shared<DeviceTransfer>(input.ops, input.devices, input.options,
                                                 input.function, std::move(streams))),
      devices_(by_device(input.devices)),
      seed_(seed_of(input, start.seed)) {
  make_iterators(std::move(start), stages);
  discard_collected();
}

void StepReader::make_iterators(data::IteratorOptions start, const data::StagesOptions& stages) {
  start.seed = seed_;
  start.shard = shard_of(input_.layout, input_.policy);
  start.batch_memory = batch_memory_of(input_);
  if (reads_the_same(input_)) start.order = data::Order::kInOrder;
  const auto sizes =
      input_.piece_sizes ? input_.piece_sizes : piece_sizes(input_.policy, input_.layout);
  for (const auto& dataset : input_.datasets) {
    start.stages = stages_.emplace_back(std::make_shared<data::Stages>(stages));
    iterators_.emplace_back(input_.ops, data::Iterator<std::any>(dataset, start), sizes);
    // The default where neither `stages` nor the dataset's options set a budget.
    start.stages->set_default_tuning(input_tuning(input_.devices, input_.datasets.size()));
  }
}

void StepReader::copy_in_parallel() {
  if (devices_.size() < 2 || device_threads_) return;
  device_threads_ = std::make_unique<concurrency::ThreadPool>(
      concurrency::ThreadPoolOptions{.threads = devices_.size() - 1, .name = "input copies"});
}

OwnStep StepReader::read() {
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

/// A global batch, split among the replicas of all workers; with kOff among this worker's only.
StepReader::OwnBatches StepReader::read_split(OwnStep& step) {
  const std::optional<std::any> batch = next_global_batch();
  step.is_last = !batch;
  if (!batch) return OwnBatches(replicas());
  step.examples.global = input_.ops.examples_in(*batch);
  if (input_.layout.audits_gradients) step.of_any = parts_of_any(*batch);
  const auto count = static_cast<int>(replicas());
  ReplicaRange own{
      .first = input_.layout.replicas.first, .local = count, .total = input_.layout.replicas.total};
  if (input_.policy == AutoShardPolicy::kOff && !input_.layout.is_independent) {
    own = {.first = 0, .local = count, .total = count};
    step.examples.global *= input_.layout.num_workers;  // every worker trains on all examples
  }
  OwnBatches batches;
  for (std::any& part : parts_for(input_.ops, *batch, own)) batches.emplace_back(std::move(part));
  return batches;
}

/// The next batch or piece of each replica, until this worker's data ends.
StepReader::OwnBatches StepReader::read_collected(OwnStep& step) {
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

/// Of N workers that take every N-th batch, each passes over the others' before and after its own.
/// So a position is that of all workers, and of any other strategy.
std::optional<std::any> StepReader::next_global_batch() {
  PieceIterator& batches = iterators_.front();
  if (!input_.takes_every_nth()) return batches.next();
  batches.skip_batches(input_.layout.worker);
  std::optional<std::any> own = batches.next();
  if (own) batches.skip_batches(input_.layout.num_workers - input_.layout.worker - 1);
  return own;
}

std::vector<std::optional<DeviceBatch>> StepReader::transferred(OwnBatches batches,
                                                                std::uint64_t step) {
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
  concurrency::FirstError error;
  for (std::size_t i = 0; i < devices_.size() - elsewhere; ++i)
    error.attempt([&] { transfer(devices_[i]); });
  for (std::future<void>& each : transfers) error.attempt([&] { each.get(); });
  error.rethrow();
  return made;
}

/// Makes the parts of any replica from a global batch that all workers have.
PerReplica<std::any>::OfAny StepReader::parts_of_any(const std::any& batch) const {
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

std::any StepReader::empty_batch() const {
  const std::optional<std::any> batch =
      data::Iterator<std::any>(input_.datasets.front(), {}).next();
  if (!batch) return {};
  DeviceBatch empty =
      transfer_->transfer(input_.ops.examples_between(*batch, 0, 0), 0, id_of(0, step_));
  return std::move(empty).use_on(input_.devices.front(), input_.ops);
}

ReplicaBatchId StepReader::id_of(std::size_t local, std::uint64_t step) const {
  return {.seed = seed_,
          .replica = input_.layout.first_stream() + static_cast<int>(local),
          .epoch = epoch(),
          .step = step};
}

void StepReader::discard_collected() {
  collected_ = OwnBatches(replicas());
  num_collected_ = 0;
}

void StepReader::start_next_epoch() {
  for (PieceIterator& iterator : iterators_) iterator.start_next_epoch();
  discard_collected();
  step_ = 0;
}

io::StateTree StepReader::save() const {
  io::StateTree position = is_between_steps() ? save_iterators() : before_;
  if (!draws()) return position;
  io::StateTree state;
  state[kMapped] = std::move(position);
  state[kStep] = step_;
  state[kSeed] = seed_;
  return state;
}

void StepReader::restore(const io::StateTree& state) {
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

io::StateTree StepReader::save_iterators() const {
  if (iterators_.size() == 1) return iterators_.front().save();
  io::StateTree state;
  state[kReplicas] = io::StateTree::list();
  for (const PieceIterator& iterator : iterators_) state[kReplicas].push_back(iterator.save());
  return state;
}

void StepReader::restore_iterators(const io::StateTree& state) {
  const std::size_t saved = state.has(kReplicas) ? state.at(kReplicas).size() : 1;
  check_argument(saved == iterators_.size(), "The position was saved with ", saved,
                 " pipelines in this process, which now has ", iterators_.size(),
                 ": choose InputReplication and devices as before, or start a new epoch.");
  if (saved == 1) return iterators_.front().restore(state);
  const io::StateTree before = save_iterators();
  try {
    restore_each(state);
  } catch (...) {
    restore_each(before);
    throw;
  }
}

void StepReader::restore_each(const io::StateTree& positions) {
  for (std::size_t i = 0; i < iterators_.size(); ++i)
    iterators_[i].restore(positions.at(kReplicas, i));
}

std::vector<data::StageStats> StepReader::stats() const {
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

}  // namespace brigade::distribute
