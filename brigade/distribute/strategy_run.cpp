// Strategy::run: one step in all replicas of this process.

#include <ATen/ThreadLocalState.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/device/carried_context.h"
#include "brigade/distribute/strategy.h"
#include "brigade/distribute/strategy_engine.h"
#include "brigade/input/split.h"

namespace brigade::distribute {

/// One run of a function in all replicas.
///
/// Thread-safety: `run_replica` from the thread of each replica; the rest from the caller's.
class Strategy::Engine::StepRun {
 public:
  StepRun(Strategy& strategy, const std::optional<ExampleCounts>& examples, const ReplicaBody& body,
          const BodyOfAny& body_of_any)
      : strategy_(strategy),
        engine_(*strategy.engine_),
        examples_(examples),
        body_(body),
        body_of_any_(body_of_any),
        models_(engine_.living_models()),
        audit_(engine_.audit.get()),
        is_alone_(engine_.num_replicas() == 1) {}

  void run();

 private:
  void begin();
  void run_replica(int replica);
  /// The audited replica's gradients, inside of the step function of the replica that hosts the
  /// audit, whose own state is hidden.
  void compute_again(const AuditAssignment& audited, AuditedPass& pass);
  /// Calls `function(graph)` with everything that is set while a replica's function runs.
  template <class Function>
  void call_in(ReplicaContext& context, device::ReplicaGenerator& generator,
               const Function& function);

  Strategy& strategy_;
  Engine& engine_;
  const std::optional<ExampleCounts>& examples_;
  const ReplicaBody& body_;
  const BodyOfAny& body_of_any_;
  const std::vector<std::shared_ptr<const CreatedModel>> models_;
  GradientAudit* const audit_;  // null: this step is not audited
  const bool is_alone_;
  StepContext step_;
  // Replica 0 runs on the caller's thread, and needs no copy of it.
  std::optional<at::ThreadLocalState> callers_state_;
  base::Ambient callers_ambient_;
  ReplicaFailure failure_;
};

void Strategy::Engine::StepRun::begin() {
  for (const auto& model : models_) model->check_modes();
  engine_.use_numerics();
  engine_.begin_step();
  step_ = {.step = engine_.progress().step(), .examples = examples_};
  if (!is_alone_ || audit_) callers_state_.emplace();
  callers_ambient_ = base::ambient();
}

void Strategy::Engine::StepRun::run() {
  begin();
  {
    const RunScope scope(engine_, failure_);
    engine_.meter->begin_step();
    if (audit_) {
      const auto again = [this](const AuditAssignment& audited, AuditedPass& pass) {
        compute_again(audited, pass);
      };
      audit_->begin_step(step_.step, engine_.store,
                         body_of_any_ ? GradientAudit::Again(again) : nullptr);
    }
    for (int replica = 0; replica < engine_.num_replicas(); ++replica)
      engine_.group->measure(replica, engine_.meter->clock(replica));
    for (ReplicaStream& stream : engine_.streams) stream.fork();
    engine_.runner->run([this](int replica) { run_replica(replica); });
    for (const ReplicaStream& stream : engine_.streams) stream.join();
  }
  failure_.rethrow(strategy_, examples_);
  engine_.meter->finish_step();
}

void Strategy::Engine::StepRun::run_replica(int replica) {
  std::optional<at::ThreadLocalStateGuard> torch_state;
  if (replica > 0) torch_state.emplace(*callers_state_);
  const base::AmbientInstall ambient(callers_ambient_);
  StepMeter::ReplicaScope measured(*engine_.meter, replica);
  ReplicaContext context({.id = engine_.range.first + replica,
                          .count = engine_.range.total,
                          .local_id = replica,
                          .communicator = audit_ ? &audit_->communicator(replica)
                                                 : engine_.communicators[replica].get(),
                          .stages = engine_.parts.stages.get(),
                          .first_id = engine_.range.first},
                         strategy_, engine_.parts.devices[replica], step_, *engine_.group,
                         audit_ ? &audit_->pass(replica) : nullptr);
  call_in(context, *engine_.generators[replica], [&](variables::Graph& replica_graph) {
    try {
      measured.has_input();
      body_(context);
      for (const auto& model : models_) model->check_untouched(replica);
      replica_graph
          .run_scheduled_updates();  // of passes whose gradients are applied outside of replicas
      if (!is_alone_) engine_.group->leave(replica);
    } catch (...) {
      const std::string text = failure_.record(replica, std::current_exception());
      if (!is_alone_) engine_.group->abort(replica, text);
    }
  });
}

void Strategy::Engine::StepRun::compute_again(const AuditAssignment& audited, AuditedPass& pass) {
  const at::ThreadLocalStateGuard torch_state(*callers_state_);
  const base::AmbientInstall ambient(callers_ambient_);
  const auto host = static_cast<std::size_t>(audited.host);
  StepContext of_audited = step_;
  if (of_audited.examples) {
    of_audited.examples->local[host] =
        input::split_sizes(examples_->global, engine_.range.total)[audited.replica];
  }
  const ReplicaBody again = body_of_any_(audited.replica);
  ReplicaContext context({.id = audited.replica,
                          .count = engine_.range.total,
                          .local_id = audited.host,
                          .communicator = &audit_->communicator(audited.host)},
                         strategy_, engine_.parts.devices[host], of_audited, *engine_.group, &pass);
  device::ReplicaGenerator generator(engine_.parts.seed, audited.replica);
  const comm::PhaseScope computing(context.clock(), comm::StepPhase::kCompute);
  call_in(context, generator, [&](variables::Graph&) { again(context); });
}

template <class Function>
void Strategy::Engine::StepRun::call_in(ReplicaContext& context,
                                        device::ReplicaGenerator& generator,
                                        const Function& function) {
  const base::AmbientScope<const comm::Replica> replica_scope(comm::kReplicaSlot, &context);
  const base::AmbientScope<const ReplicaContext> context_scope(kContextSlot, &context);
  ReplicaRowSource rows(engine_, context.local_id);
  const base::AmbientScope<variables::RowSource> row_scope(variables::kRowSourceSlot, &rows);
  variables::Graph replica_graph(engine_.store,
                                 {.reuse = variables::Reuse::kYes, .placer = engine_.placer});
  const auto graph_scope = replica_graph.as_default();
  const ReplicaStream::Scope stream(engine_.streams[context.local_id]);
  generator.begin_step(step_.step);
  const device::RandomScope random(generator);
  std::optional<device::AutocastScope> casts;
  if (engine_.precision != device::Precision::kFull) casts.emplace(engine_.precision);
  std::optional<device::CarriedContext> carried;  // of all that was set above
  if (engine_.carries_context) carried.emplace();
  function(replica_graph);
}

void Strategy::run_replicas(const std::optional<ExampleCounts>& examples, const ReplicaBody& body,
                            const BodyOfAny& body_of_any) {
  check_state(
      !engine_->fork.is_in_child(),
      "Strategy::run was called in a child process that was forked after the strategy ", name(),
      " was made. The child has none of the strategy's threads, and would wait for them without "
      "end: make the strategy in the child, or start the process with posix_spawn.");
  check_state(in_cross_replica_context() && !engine_->running,
              "Strategy::run was called inside a replica or a merge_call, or in a second thread "
              "while the first one is in run: runs do not nest, and do not run at the same time.");
  if (examples && static_cast<int>(examples->local.size()) != num_local_replicas()) {
    throw Error(ErrorCode::kInvalidArgument, "The batch is split for ", examples->local.size(),
                " replicas, and ", name(), " has ", num_local_replicas(),
                ": distribute it with this strategy.");
  }
  Engine::StepRun(*this, examples, body, body_of_any).run();
}

}  // namespace brigade::distribute
