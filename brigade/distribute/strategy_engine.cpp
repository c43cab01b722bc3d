#include "brigade/distribute/strategy_engine.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "brigade/base/error.h"
#include "brigade/comm/nccl/nccl.h"
#include "brigade/concurrency/shared_slots.h"
#include "brigade/device/arithmetic_fingerprint.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/device/backward_threads.h"
#include "brigade/device/carried_context.h"
#include "brigade/device/numerics.h"
#include "brigade/machine/topology.h"

namespace brigade::distribute {

namespace {

// The random stream of initial weights, different from every replica's.
constexpr std::uint64_t kCreationStream = ~std::uint64_t{0};

StrategyParts with_spin(StrategyParts parts) {
  // A single replica waits for no other; replicas that share a device wait for its slot.
  constexpr std::chrono::microseconds kNone{0};
  const bool polls = parts.devices.size() > 1 && parts.slots.empty();
  if (!parts.spin) parts.spin = polls ? spin_duration(parts.devices) : kNone;
  return parts;
}

StrategyParts checked(StrategyParts parts) {
  const WorkerIndex& worker = parts.worker;
  check_argument(worker.count >= 1 && worker.index >= 0 && worker.index < worker.count,
                 "StrategyParts::worker of ", parts.name, " is worker ", worker.index, " of ",
                 worker.count, ": indices are 0 to count - 1.");
  check_argument(parts.slots.empty() || parts.slots.size() == parts.devices.size(),
                 "StrategyParts::slots of ", parts.name, " names the slots of ", parts.slots.size(),
                 " replicas and there are ", parts.devices.size(), ": name one for each, or none.");
  check_argument(parts.audit_every >= 0 && (parts.audit_every == 0 || parts.workers),
                 "StrategyParts::audit_every of ", parts.name, " is ", parts.audit_every,
                 ": give 0, or a positive number with StrategyParts::workers.");
  check_argument(!parts.workers || worker.count == 1, "The strategy ", parts.name,
                 " has StrategyParts::workers, which share collectives, and StrategyParts::worker, "
                 "one of several that share none: give one.");
  return parts;
}

std::vector<c10::Device> torch_devices_of(const std::vector<device::Device>& devices) {
  std::vector<c10::Device> torch_devices;
  for (const device::Device& device : devices) torch_devices.push_back(device.torch_device);
  return torch_devices;
}

std::shared_ptr<concurrency::ExecutionSlots> make_slots(const StrategyParts& parts) {
  if (parts.execution) return parts.execution;
  if (parts.slots.empty()) return nullptr;
  return std::make_shared<concurrency::SharedSlots>(parts.slots);
}

std::string arithmetic_of(const StrategyParts& parts) {
  if (parts.logical_replicas == 0 || !parts.devices.front().is_cpu()) return {};
  if (parts.workers) return parts.workers->arithmetic;
  return device::arithmetic_fingerprint(parts.devices.front().threads);
}

/// The workers that run other replicas; null: none.
const WorkerGroup* replica_workers_of(const StrategyParts& parts) {
  return parts.replica_workers.value_or(parts.workers).get();
}

ReplicaRange range_of(const StrategyParts& parts) {
  const auto local = static_cast<int>(parts.devices.size());
  const WorkerGroup* const workers = replica_workers_of(parts);
  if (workers == nullptr) return {.first = 0, .local = local, .total = local};
  const comm::ProcessLayout& layout = workers->layout;
  return {.first = layout.first_replica(), .local = local, .total = layout.num_replicas()};
}

std::shared_ptr<const variables::Peers> peers_of(const StrategyParts& parts) {
  const WorkerGroup* const workers = replica_workers_of(parts);
  if (workers == nullptr) return nullptr;
  return std::make_shared<const variables::Peers>(
      variables::Peers{.communicator = workers->communicator, .layout = workers->layout});
}

/// A placer that knows the strategy's devices, for device scopes inside replicas.
std::shared_ptr<device::Placer> make_placer(const StrategyParts& parts) {
  std::vector<device::Device> devices = parts.devices;
  std::ranges::copy(parts.named_devices, std::back_inserter(devices));
  if (const auto controller = parts.storage->controller()) devices.push_back(*controller);
  return std::make_shared<device::Placer>(parts.placement, std::move(devices),
                                          device::NameWithoutDevice::kNoChoice);
}

/// NCCL if it is built in and every replica has its own card, which NCCL requires.
std::vector<std::unique_ptr<comm::Communicator>> make_local_communicators(
    const std::shared_ptr<comm::LocalGroup>& group, const StrategyParts& parts) {
  const std::vector<device::Device>& devices = parts.devices;
  auto local = comm::make_local_communicators(group);
  std::vector<int> cards;
  for (const device::Device& device : devices) {
    if (device.torch_device.is_cuda()) cards.push_back(device.torch_device.index());
  }
  const bool has_own_cards = std::set<int>(cards.begin(), cards.end()).size() == devices.size();
  if (!comm::nccl_is_built_in() || !has_own_cards || devices.size() == 1) return local;
  return comm::make_nccl_communicators(cards, std::move(local), parts.timeout);
}

std::vector<std::unique_ptr<comm::Communicator>> make_communicators(
    const std::shared_ptr<comm::LocalGroup>& group, const StrategyParts& parts) {
  auto local = make_local_communicators(group, parts);
  const WorkerGroup* const workers = replica_workers_of(parts);
  if (workers == nullptr) return local;
  auto over_host = comm::make_hierarchical_communicators(group, std::move(local),
                                                         workers->communicator, workers->layout);
  const auto devices = torch_devices_of(parts.devices);
  if (parts.card_communicators) {
    return parts.card_communicators(workers->membership, devices, std::move(over_host),
                                    workers->communication);
  }
  return comm::make_nccl_process_communicators(workers->membership, devices, std::move(over_host),
                                               workers->communication);
}

std::unique_ptr<GradientAudit> make_audit(
    const StrategyParts& parts, const std::shared_ptr<comm::LocalGroup>& group,
    const std::vector<std::unique_ptr<comm::Communicator>>& communicators) {
  if (parts.audit_every == 0) return nullptr;
  return std::make_unique<GradientAudit>(parts.workers, group, communicators, parts.audit_every);
}

}  // namespace

Strategy::Engine::Engine(StrategyParts given)
    : parts(with_spin(checked(std::move(given)))),
      arithmetic(arithmetic_of(parts)),
      torch_devices(torch_devices_of(parts.devices)),
      controller(parts.storage->controller()),
      slots(make_slots(parts)),
      runner(parts.runner(parts.devices, {.spin = *parts.spin, .slots = slots})),
      group(make_group(slots)),
      meter(std::make_shared<StepMeter>(num_replicas())),
      communicators(make_communicators(group, parts)),
      range(range_of(parts)),
      audit(make_audit(parts, group, communicators)),
      store({.devices = torch_devices,
             .storage = parts.storage,
             .seed = parts.seed,
             .placement = parts.servers.count > 0 ? variables::StorePlacement::kTasks
                                                  : variables::StorePlacement::kDevices,
             .peers = peers_of(parts)}),
      carries_context(device::autograd_has_threads()),
      placer(make_placer(parts)),
      graph(store, {.placer = placer}),
      copy_streams(make_copy_streams(torch_devices)),
      creation(parts.seed, kCreationStream) {
  // Without collectives the replicas of each worker are counted from 0; their streams are not.
  const int first = parts.workers ? range.first : parts.worker.index * num_replicas();
  for (int replica = 0; replica < num_replicas(); ++replica) {
    generators.push_back(std::make_unique<device::ReplicaGenerator>(parts.seed, first + replica));
    streams.emplace_back(parts.devices[replica]);
    if (const auto& stream = streams.back().stream()) meter->use_stream(replica, *stream);
  }
  place_backward_threads();
}

WorkerIndex Strategy::Engine::worker() const {
  if (!parts.workers) return parts.worker;
  return {.index = parts.workers->index(), .count = parts.workers->count()};
}

const WorkerGroup* Strategy::Engine::replica_workers() const {
  return replica_workers_of(parts);
}

std::shared_ptr<comm::LocalGroup> Strategy::Engine::make_group(
    std::shared_ptr<concurrency::ExecutionSlots> in_slots) const {
  return std::make_shared<comm::LocalGroup>(
      num_replicas(),
      comm::LocalGroupOptions{
          .timeout = parts.timeout, .spin = *parts.spin, .slots = std::move(in_slots)});
}

std::shared_ptr<GradientSynchronizer> Strategy::Engine::make_synchronizer(
    std::shared_ptr<optim::OptimizerState> state) {
  SynchronizerContext context{.state = std::move(state),
                              .group = group,
                              .communicators = {},
                              .workers = parts.workers,
                              .optimizer = optimizers_made++,
                              .placer = placer,
                              .store = &store,
                              .notifying_replicas = static_cast<int>(
                                  std::set<int>(parts.slots.begin(), parts.slots.end()).size())};
  for (const auto& communicator : communicators)
    context.communicators.push_back(communicator.get());
  if (replica_workers() == nullptr && !parts.devices.front().torch_device.is_cpu()) {
    context.side_communicators = {.group = make_group(nullptr),
                                  .make = [this](std::shared_ptr<comm::LocalGroup> side) {
                                    return make_local_communicators(side, parts);
                                  }};
  }
  std::shared_ptr<GradientSynchronizer> synchronizer = parts.synchronizer(context);
  synchronizers.push_back(synchronizer);
  return synchronizer;
}

std::shared_ptr<SubtreeSums> Strategy::Engine::make_subtree_sums() const {
  return parts.slots.empty() ? nullptr : std::make_shared<SubtreeSums>(group, range, parts.slots);
}

Strategy::Engine::RunScope::RunScope(Engine& engine, const ReplicaFailure& failure)
    : engine_(engine), failure_(failure), exceptions_(std::uncaught_exceptions()) {
  engine_.running = true;
  engine_.progress().begin_step();
}

Strategy::Engine::RunScope::~RunScope() {
  const bool has_failed = failure_.happened() || std::uncaught_exceptions() > exceptions_;
  engine_.end_run(has_failed ? StepOutcome::kFailed : StepOutcome::kDone, failure_);
}

/// Every run, successful or failed, ends here; it resets the state for the next run.
void Strategy::Engine::end_run(StepOutcome outcome, const ReplicaFailure& failure) noexcept {
  std::erase_if(synchronizers, [](const auto& synchronizer) { return synchronizer.expired(); });
  for (const auto& synchronizer : synchronizers) outcome = synchronizer.lock()->end_step(outcome);
  if (outcome == StepOutcome::kFailed && parts.workers)
    progress().fail_step(failure.happened() ? failure.text() : "its gradients were not applied");
  progress().end_step();
  group->reset();
  device::clear_autocast_cache();  // a function that enables autocast itself may have filled it
  running = false;
}

void Strategy::Engine::place_backward_threads() const {
  if (std::ranges::none_of(torch_devices, &c10::Device::is_cuda)) return;
  device::place_backward_threads(torch_devices, machine::discover_topology().cores);
}

void Strategy::Engine::use_numerics() const {
  if (std::ranges::any_of(torch_devices, &c10::Device::is_cuda)) device::use_numerics(numerics);
}

std::vector<std::shared_ptr<const CreatedModel>> Strategy::Engine::living_models() const {
  std::vector<std::shared_ptr<const CreatedModel>> living;
  for (const auto& model : models) {
    if (auto alive = model.lock()) living.push_back(std::move(alive));
  }
  return living;
}

std::vector<std::shared_ptr<GradientSynchronizer>> Strategy::Engine::living_synchronizers() const {
  std::vector<std::shared_ptr<GradientSynchronizer>> living;
  for (const auto& synchronizer : synchronizers) {
    if (auto alive = synchronizer.lock()) living.push_back(std::move(alive));
  }
  return living;
}

void Strategy::Engine::begin_step() const {
  for (const auto& synchronizer : synchronizers) {
    if (const auto alive = synchronizer.lock()) alive->begin_step();
  }
}

/// Optimizers are neither made nor forgotten while replicas run.
void Strategy::Engine::ReplicaRowSource::fetch(std::span<const variables::WantedRows> wanted) {
  for (const auto& synchronizer : engine_.synchronizers) {
    if (const auto alive = synchronizer.lock()) alive->fetch_rows(replica_, wanted);
  }
}

void Strategy::Engine::check_idle(std::string_view call) const {
  check_state(in_cross_replica_context() && !running, "Strategy::", call,
              " was called while replicas run: call it after Strategy::run has returned, because "
              "each replica updates its own clock until then.");
}

}  // namespace brigade::distribute
