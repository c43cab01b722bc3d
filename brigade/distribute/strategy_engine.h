#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/fork_detector.h"
#include "brigade/comm/local/local_group.h"
#include "brigade/concurrency/execution_slots.h"
#include "brigade/device/random_scope.h"
#include "brigade/distribute/gradient_audit.h"
#include "brigade/distribute/optimizer/subtree_sums.h"
#include "brigade/distribute/replica_failure.h"
#include "brigade/distribute/replica_runner.h"
#include "brigade/distribute/strategy.h"
#include "brigade/variables/row_source.h"

namespace brigade::distribute {

/// What a strategy makes from its parts and keeps while it exists. For strategy*.cpp.
struct Strategy::Engine {
  explicit Engine(StrategyParts given);

  int num_replicas() const { return static_cast<int>(parts.devices.size()); }
  /// This worker and the number of workers, whether or not they share collectives.
  WorkerIndex worker() const;
  /// See StrategyParts.
  const WorkerGroup* replica_workers() const;

  /// Reduces the gradients of one optimizer and updates its variables.
  std::shared_ptr<GradientSynchronizer> make_synchronizer(
      std::shared_ptr<optim::OptimizerState> state);
  /// A group of the replicas.
  std::shared_ptr<comm::LocalGroup> make_group(
      std::shared_ptr<concurrency::ExecutionSlots> in_slots) const;
  /// Adds the gradients of replicas that have one device; null if each has its own.
  std::shared_ptr<SubtreeSums> make_subtree_sums() const;

  /// With other workers, the progress that they see of this worker.
  comm::StepProgress& progress() {
    return parts.workers ? parts.workers->communicator->progress() : own_progress;
  }

  /// Begins a run, and ends it in the destructor, also when an exception is thrown.
  class RunScope {
   public:
    RunScope(Engine& engine, const ReplicaFailure& failure);
    ~RunScope();
    RunScope(const RunScope&) = delete;
    RunScope& operator=(const RunScope&) = delete;

   private:
    Engine& engine_;
    const ReplicaFailure& failure_;
    const int exceptions_;
  };

  /// One run of a function in all replicas (strategy_run.cpp).
  class StepRun;

  /// Where the layers of one replica fetch rows from: the synchronizers.
  class ReplicaRowSource final : public variables::RowSource {
   public:
    ReplicaRowSource(const Engine& engine, int replica) : engine_(engine), replica_(replica) {}
    void fetch(std::span<const variables::WantedRows> wanted) override;

   private:
    const Engine& engine_;
    const int replica_;
  };

  /// The models that are still referenced by a handle.
  std::vector<std::shared_ptr<const CreatedModel>> living_models() const;
  /// The synchronizers of the optimizers that are still referenced by a handle.
  std::vector<std::shared_ptr<GradientSynchronizer>> living_synchronizers() const;
  /// Lets every synchronizer begin a step; may wait.
  void begin_step() const;

  /// Autograd's threads of the replicas' GPUs get their cores.
  void place_backward_threads() const;
  /// Sets libtorch, where replicas are on GPUs.
  void use_numerics() const;

  void check_idle(std::string_view call) const;

  const base::ForkDetector fork;  // a child has none of the threads of what is below
  const StrategyParts parts;
  const std::string arithmetic;                    // its fingerprint, with logical replicas
  const std::vector<c10::Device> torch_devices;    // [replica]
  const std::optional<device::Device> controller;  // of the variables, if it is no replica's
  const std::shared_ptr<concurrency::ExecutionSlots>
      slots;  // null: each replica has its own device
  const std::unique_ptr<ReplicaRunner> runner;
  const std::shared_ptr<comm::LocalGroup> group;
  const std::shared_ptr<StepMeter> meter;                                // shared with datasets
  const std::vector<std::unique_ptr<comm::Communicator>> communicators;  // [replica]
  const ReplicaRange range;
  const std::unique_ptr<GradientAudit> audit;  // null: gradients are not audited
  variables::VariableStore store;
  const bool carries_context;  // to autograd's threads
  const std::shared_ptr<device::Placer> placer;
  variables::Graph graph;  // of the open scope; replicas have separate graphs
  std::vector<std::unique_ptr<device::ReplicaGenerator>>
      generators;                                         // [replica]: used by its thread in a run
  std::vector<ReplicaStream> streams;                     // [replica]
  const std::shared_ptr<const CopyStreams> copy_streams;  // [replica], of all input
  device::ReplicaGenerator creation;
  std::vector<std::weak_ptr<const CreatedModel>> models;
  std::vector<std::weak_ptr<GradientSynchronizer>> synchronizers;  // owned by their optimizers
  std::vector<Optimizer::Weak> optimizers;
  std::vector<std::weak_ptr<const optim::ExponentialMovingAverage* const>> averages;
  const std::shared_ptr<CreatedStates> states = std::make_shared<CreatedStates>();
  int optimizers_made = 0;
  device::Precision precision = device::Precision::kFull;
  device::Numerics numerics = device::Numerics::kReproducible;
  bool running = false;  // a run is in progress; used by the caller's thread only
  EpochCounters epochs;
  std::uint64_t models_created = 0;
  comm::StepProgress own_progress;  // used without other workers

 private:
  void end_run(StepOutcome outcome, const ReplicaFailure& failure) noexcept;
};

}  // namespace brigade::distribute
