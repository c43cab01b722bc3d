#include "brigade/ps/coordinator/phase_coordination.h"

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/ps/coordinator/cluster_coordinator.h"
#include "brigade/ps/coordinator/coordinated_worker.h"
#include "brigade/ps/coordinator/coordinator_cluster.h"
#include "brigade/ps/coordinator/function_registry.h"

namespace brigade::ps {
namespace {

using distribute::RemoteData;
using distribute::RemoteFunction;

// The one function that both sides register: it calls the phase's own.
constexpr const char* kRunOfPhase = "run of a phase";

/// What a worker runs now.
struct ServedPhase {
  const std::vector<RemoteFunction>* functions = nullptr;  // null in the chief
};
struct ServedPhaseReference {
  const ServedPhase& phase;
};

FunctionData data_of(const RemoteData& remote) {
  FunctionData data{.values = remote.values};
  for (const RemoteData::NamedTensor& each : remote.tensors)
    data.tensors.push_back({each.name, each.tensor});
  return data;
}

RemoteData remote_of(FunctionData data, io::StateTree values) {
  RemoteData remote{.values = std::move(values)};
  for (checkpoint::NamedTensor& each : data.tensors)
    remote.tensors.push_back({std::move(each.name), std::move(each.tensor)});
  return remote;
}

const RemoteFunction& function_of_phase(const ServedPhase& phase, const std::string& name) {
  std::vector<std::string> names;
  for (const RemoteFunction& each : *phase.functions) {
    if (each.name == name) return each;
    names.push_back(each.name);
  }
  throw Error(ErrorCode::kNotFound, "The worker has no function ", base::quoted(name), " among [",
              base::listed(names, ", "),
              "]: chief and workers have to make the same calls in the same order.");
}

FunctionData run_of_phase(const ServedPhaseReference& served, const FunctionCall& call) {
  const io::StateTree& values = call.arguments.values;
  const RemoteFunction& function = function_of_phase(served.phase, values.as_string("function"));
  return data_of(function.run(remote_of(call.arguments, values.at("arguments"))));
}

FunctionRegistry<ServedPhaseReference> functions_of_phases(const ServedPhase& phase) {
  FunctionRegistry<ServedPhaseReference> functions([&phase](const WorkerContext&) {
    return std::make_unique<ServedPhaseReference>(ServedPhaseReference{.phase = phase});
  });
  functions.add(kRunOfPhase, run_of_phase);
  return functions;
}

/// A phase in the chief.
class ScheduledPhase final : public distribute::CoordinatedPhase {
 public:
  /// `is_open` says whether one exists, and outlives this.
  ScheduledPhase(ClusterCoordinator& coordinator, bool& is_open)
      : coordinator_(coordinator), is_open_(is_open) {
    coordinator_.begin_phase();
    is_open_ = true;
  }
  ~ScheduledPhase() override {
    is_open_ = false;
    if (has_ended_) return;
    try {
      coordinator_.drop_functions();
    } catch (const std::exception& error) {
      base::log_error("A phase was not cancelled: ", error.what());
    }
  }
  ScheduledPhase(const ScheduledPhase&) = delete;
  ScheduledPhase& operator=(const ScheduledPhase&) = delete;

  void schedule(const std::string& function, const RemoteData& arguments) override {
    FunctionData data = data_of(arguments);
    io::StateTree values;
    values["function"] = function;
    values["arguments"] = std::move(data.values);
    data.values = std::move(values);
    pending_.push_back(coordinator_.schedule(kRunOfPhase, data));
  }

  std::size_t unfinished() const override { return pending_.size(); }

  std::optional<RemoteData> next_result(std::chrono::milliseconds timeout) override {
    const auto position = coordinator_.wait_any(pending_, timeout);
    if (!position) return std::nullopt;
    const auto found = pending_.begin() + static_cast<std::ptrdiff_t>(*position);
    const RemoteValue value = *found;
    pending_.erase(found);
    // Of functions that have ended without a result, one has failed, and the others because of it.
    if (value.state() == RemoteValueState::kAborted) coordinator_.join();
    FunctionData data = value.get();
    io::StateTree values = std::move(data.values);
    return remote_of(std::move(data), std::move(values));
  }

  void drop() override {
    pending_.clear();
    coordinator_.drop_functions();
    coordinator_.join();
  }

  void end(const io::StateTree& outcome) override {
    coordinator_.end_phase(outcome);
    has_ended_ = true;
  }

 private:
  ClusterCoordinator& coordinator_;
  bool& is_open_;
  std::vector<RemoteValue> pending_;  // in the order in which they were scheduled
  bool has_ended_ = false;
};

class ChiefsPhases final : public distribute::Coordination {
 public:
  ChiefsPhases(cluster::ClusterConfig cluster, PhaseCoordinationOptions options)
      : cluster_(std::move(cluster)), options_(std::move(options)) {}

  bool is_coordinator() const override { return true; }
  int num_workers() const override {
    return static_cast<int>(coordinated_workers(cluster_).size());
  }

  std::unique_ptr<distribute::CoordinatedPhase> begin_phase() override {
    check_state(!is_open_,
                "A phase of the chief begins in another one, which its workers serve: call fit and "
                "evaluate one after another, and not in callbacks.");
    if (!coordinator_)
      coordinator_.emplace(cluster_, functions_,
                           ClusterCoordinatorOptions{.lease = options_.lease,
                                                     .wait_for_latecomers = options_.lease,
                                                     .key = options_.key,
                                                     .cancel = options_.cancel});
    return std::make_unique<ScheduledPhase>(*coordinator_, is_open_);
  }

  std::optional<io::StateTree> serve_phase(const std::vector<RemoteFunction>&) override {
    throw Error(ErrorCode::kFailedPrecondition,
                "The chief serves a phase, which is what workers do: it begins one.");
  }

 private:
  const cluster::ClusterConfig cluster_;
  const PhaseCoordinationOptions options_;
  const ServedPhase none_;
  const FunctionRegistry<ServedPhaseReference> functions_ = functions_of_phases(none_);
  std::optional<ClusterCoordinator> coordinator_;
  bool is_open_ = false;  // a phase exists
};

class WorkersPhases final : public distribute::Coordination {
 public:
  WorkersPhases(cluster::ClusterConfig cluster, PhaseCoordinationOptions options)
      : cluster_(std::move(cluster)), options_(std::move(options)) {}

  bool is_coordinator() const override { return false; }
  int num_workers() const override {
    return static_cast<int>(coordinated_workers(cluster_).size());
  }

  std::unique_ptr<distribute::CoordinatedPhase> begin_phase() override {
    throw Error(ErrorCode::kFailedPrecondition,
                "A worker begins a phase, which is what the chief does: it serves one.");
  }

  std::optional<io::StateTree> serve_phase(const std::vector<RemoteFunction>& functions) override {
    if (!worker_)
      worker_.emplace(cluster_, functions_,
                      CoordinatedWorkerOptions{.key = options_.key,
                                               .coordinator_timeout = options_.coordinator_timeout,
                                               .cancel = options_.cancel});
    served_.functions = &functions;
    // After its own error it has not served this phase, and serves it when it is called
    // again.
    const auto end = worker_->serve_phase(phase_ + 1);
    if (!end) return std::nullopt;
    ++phase_;
    if (end->error)
      throw Error(end->error->code, "Phase ", phase_,
                  " of the chief has failed: ", end->error->message);
    return end->outcome;
  }

 private:
  const cluster::ClusterConfig cluster_;
  const PhaseCoordinationOptions options_;
  ServedPhase served_;
  const FunctionRegistry<ServedPhaseReference> functions_ = functions_of_phases(served_);
  std::optional<CoordinatedWorker> worker_;
  std::int64_t phase_ = 0;  // the last that was served
};

}  // namespace

std::shared_ptr<distribute::Coordination> make_phase_coordination(
    const cluster::ClusterConfig& cluster, const PhaseCoordinationOptions& options) {
  if (cluster.is_chief()) return std::make_shared<ChiefsPhases>(cluster, options);
  return std::make_shared<WorkersPhases>(cluster, options);
}

}  // namespace brigade::ps
