#include "brigade/ps/remote_synchronizer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/distribute/cross_replica_call.h"
#include "brigade/distribute/optimizer/sum_of_replicas.h"
#include "brigade/ps/client/early_gradients.h"
#include "brigade/ps/client/row_copies.h"
#include "brigade/ps/variable_parts.h"

namespace brigade::ps {

namespace {

using distribute::GradientState;
using variables::Variable;

std::vector<c10::Device> devices_of_replicas(const optim::OptimizerState& state) {
  const Variable& variable = state.variables().front();
  std::vector<c10::Device> devices;
  for (int replica = 0; replica < variable.num_components(); ++replica)
    devices.push_back(variable.component(replica).device());
  return devices;
}

std::vector<PlacedVariable> placement_of(const std::vector<VariablePart>& parts,
                                         const optim::OptimizerState& state, int servers,
                                         const RemoteSynchronizerOptions& options) {
  std::vector<VariableSize> sizes;
  for (const VariablePart& part : parts) {
    const Variable& variable = state.variables()[part.variable];
    sizes.push_back({.name = part.name,
                     .bytes = static_cast<std::int64_t>(part.of(variable.component(0)).nbytes()),
                     .server = requested_server(variable.requested_device(), part.name, servers,
                                                options.tasks)});
  }
  return place_variables(sizes, servers, options.ps_strategy);
}

void log_placement(const std::vector<PlacedVariable>& placement, const ServerTasks& tasks,
                   device::Placer& placer) {
  for (const PlacedVariable& each : placement)
    placer.record(device::PlacedKind::kVariable, each.name, tasks.name(each.server));
}

/// Servers update what they keep, and know of a group only its rates.
void check_servers_can_apply(const optim::OptimizerState& state,
                             const std::vector<VariablePart>& parts) {
  if (!state.rule().needs_whole_variables()) return;
  for (const VariablePart& part : parts) {
    if (part.is_whole) continue;
    throw Error(
        ErrorCode::kUnimplemented, "The rule ", state.rule().name(),
        " needs the norms of whole variables, and the parameter servers keep ",
        base::quoted(part.name),
        ", a part of one: leave out variable_partitioner, or use another rule or strategy.");
  }
  for (std::size_t i = 0; i < state.variables().size(); ++i) {
    if (state.group(i).layer_adaptation) continue;
    throw Error(ErrorCode::kUnimplemented, "The parameter group of ",
                base::quoted(state.variables()[i].name()),
                " is without layer_adaptation, which parameter servers do not know: use a mirrored "
                "strategy, or another rule than ",
                state.rule().name(), ".");
  }
}

/// In this process's memory on the CPU, not shared with the variable.
at::Tensor host_copy(const at::Tensor& value) {
  return value.detach()
      .to(at::TensorOptions(at::kCPU), /*non_blocking=*/false, /*copy=*/true)
      .contiguous();
}

/// One master's range of a variable, or of anything else with the layout of its storage.
at::Tensor range_of(const at::Tensor& flat, const Variable& variable) {
  return flat.narrow(0, variable.offset(), variable.numel()).view(variable.shape());
}

class RemoteSynchronizer final : public distribute::GradientSynchronizer {
 public:
  RemoteSynchronizer(const distribute::SynchronizerContext& context,
                     std::shared_ptr<ParameterClient> client,
                     const RemoteSynchronizerOptions& options)
      : state_(context.state),
        client_(std::move(client)),
        job_(options.job),
        is_chief_(options.is_chief),
        parts_(parts_of(state_->variables(), options.variable_partitioner)),
        placement_(placement_of(parts_, *state_, client_->num_servers(), options)),
        replicas_(context.group->world_size()),
        call_(context.group, devices_of_replicas(*state_), {}),
        rows_(*state_, parts_, *client_),
        early_(early_gradients(options)),
        local_(distribute::make_replica_synchronizer(context)) {
    const at::NoGradGuard no_grad;
    check_servers_can_apply(*state_, parts_);
    if (context.placer) log_placement(placement_, options.tasks, *context.placer);
    if (is_chief_) is_in_progress_ = client_->create(creations(), placement_, state_->rule(), job_);
    if (is_in_progress_) step_ = client_->step();
  }

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    const at::NoGradGuard no_grad;
    const bool is_local = state == GradientState::kLocal;
    const std::string_view call = is_local ? "apply_gradients" : "apply_gradients (aggregated)";
    try {
      call_.run(replica, {.name = call}, gradients, [&] {
        if (early_) early_->stop();
        push(is_local ? sums_of_replicas() : on_host(gradients));
      });
    } catch (...) {
      // The program may make another pass in this step, whose gradients are other ones.
      if (early_) early_->cancel(replica);
      throw;
    }
    refresh(replica);
  }

  bool apply_outside(std::span<const at::Tensor> sums) override {
    const at::NoGradGuard no_grad;
    begin_step();
    push(on_host(sums));
    refresh_all();
    return true;
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> dense(gradients.begin(), gradients.end());
    for (at::Tensor& gradient : dense)
      if (comm::has_rows(gradient)) gradient.reset();
    std::vector<at::Tensor> sums = local_->aggregate(replica, dense);
    call_.run(replica, {.name = "aggregate (rows)"}, gradients,
              [&] { row_sums_ = sums_of_replicas(Summed::kRows); });
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!row_sums_[i].defined()) continue;
      const at::Tensor rows = row_sums_[i].to(state_->variables()[i].component(replica).device());
      sums[i] =
          sums[i].defined() ? sums[i].add_(rows) : rows.clone();  // replicas may change theirs
    }
    return sums;
  }

  distribute::GradientReadyListener* ready_listener() override { return early_.get(); }

  // A rule of whole variables gets dense gradients, so tables are pulled as wholes.
  bool takes_rows() const override { return !state_->rule().needs_whole_variables(); }
  void fetch_rows(int replica, std::span<const variables::WantedRows> wanted) override {
    if (takes_rows()) rows_.fetch(replica, wanted);
  }

  double loss_weight() const override {
    return job_.mode == UpdateMode::kSync ? 1.0 / job_.sync.replicas_to_aggregate : 1.0;
  }

  void begin_step() override {
    const at::NoGradGuard no_grad;
    rows_.forget();
    start();
    if (may_push_) return;
    await_permission();
    refresh_all();
  }

  distribute::StepOutcome end_step(distribute::StepOutcome replicas) override {
    if (early_) early_->reset();
    return replicas;
  }

  void fetch_state() override {
    if (has_own_values()) return;
    const at::NoGradGuard no_grad;
    start();
    const auto [variables, step] = client_->states();
    for (std::size_t i = 0; i < variables.size(); ++i) write(parts_[i], variables[i].state);
    record_step(step);
    take_learning_rate();
    refresh_all();
  }

  void store_state() override {
    const at::NoGradGuard no_grad;
    if (has_own_values()) return assign_all();
    fetch_state();
    if (!is_chief_) return;
    base::log_info("The job is in progress on the parameter servers at step ", step_,
                   ": the chief continues with their values, not with those that it has restored "
                   "or initialized.");
  }

  void start_job() override {
    if (!has_own_values()) return;
    const at::NoGradGuard no_grad;
    assign_all();  // variables may have been assigned since they were created
    client_->set_ready();
    is_in_progress_ = true;
  }

  std::optional<std::int64_t> global_step() const override { return step_; }
  void set_global_step(std::int64_t step) override {
    if (has_own_values()) step_ = step;
  }
  void follow_global_step(std::int64_t step) override {
    if (!has_own_values()) step_ = std::max(step_, step);
  }

  const distribute::UpdateStaleness* staleness() const override {
    return job_.mode == UpdateMode::kSync ? nullptr : &staleness_;
  }

  void set_learning_rate(double rate) override {
    const bool may_be_older = is_in_progress_ && !servers_rate_;  // a restored one
    if (!is_chief_ || may_be_older || servers_rate_ == rate) return;
    client_->set_learning_rate(rate);
    servers_rate_ = rate;
  }

 private:
  /// Null if no push can be sent early.
  std::unique_ptr<EarlyGradients> early_gradients(const RemoteSynchronizerOptions& options) const {
    const auto is_cpu = [](const c10::Device device) { return device.is_cpu(); };
    std::size_t bytes = 0;
    for (const Variable& variable : state_->variables()) bytes += variable.component(0).nbytes();
    if (!options.overlap_from_bytes || bytes < *options.overlap_from_bytes ||
        !std::ranges::all_of(devices_of_replicas(*state_), is_cpu))
      return nullptr;
    return std::make_unique<EarlyGradients>(state_->variables().size(), parts_, *client_, replicas_,
                                            *options.overlap_from_bytes);
  }

  /// Whether this process's values are still to become the job's.
  bool has_own_values() const { return is_chief_ && !is_in_progress_; }

  void start() {
    if (has_started_) return;
    start_job();
    if (!is_chief_) client_->wait_ready(placement_, job_);
    write(client_->pull());
    take_learning_rate();
    has_started_ = true;
    // With the step of the token, so that a worker that comes when the last step was made stops.
    if (job_.mode == UpdateMode::kSync) await_permission();
    refresh_all();
  }

  /// A chief that has set the servers' rate knows it.
  void take_learning_rate() {
    if (servers_rate_) return;
    const double rate = client_->learning_rate();
    state_->set_learning_rate(rate);
    if (is_chief_) servers_rate_ = rate;
  }

  /// After it, the copy has the values that the next step begins with.
  void await_permission() {
    client_->begin_step();
    // A push's values lack the updates that this worker then waited for.
    if (job_.mode != UpdateMode::kAsync) write(client_->pull());
    may_push_ = true;
  }

  void push(const std::vector<at::Tensor>& gradients) {
    rows_.check_gradients(gradients);
    rows_.forget();
    may_push_ = false;
    const std::vector<at::Tensor> parts = parts_of_all(gradients);
    const ParameterClient::Values after = client_->push(parts);
    if (early_) early_->expect(rows_.is_used() ? std::vector<at::Tensor>(parts.size()) : parts);
    if (job_.mode == UpdateMode::kSync) return await_permission();
    if (after.staleness) staleness_.count(*after.staleness);
    write(after);
  }

  /// In the order of the placement.
  std::vector<at::Tensor> parts_of_all(const std::vector<at::Tensor>& gradients) const {
    std::vector<at::Tensor> divided;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const VariablePart& part = parts_[i];
      const at::Tensor& gradient = gradients[part.variable];
      if (early_ && early_->part(i).defined() && gradient.is_same(early_->sum(part.variable)))
        divided.push_back(early_->part(i));
      else
        divided.push_back(comm::has_rows(gradient) ? rows_of_part(part, gradient)
                                                   : part.of(gradient));
    }
    return divided;
  }

  enum class Summed { kAll, kRows };
  std::vector<at::Tensor> sums_of_replicas(Summed which = Summed::kAll) const {
    std::vector<at::Tensor> sums(state_->variables().size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (state_->is_frozen(i)) continue;
      if (which == Summed::kAll && early_ && early_->sum(i).defined()) {
        sums[i] = early_->sum(i);
        continue;
      }
      std::vector<at::Tensor> parts(static_cast<std::size_t>(replicas_));
      for (int replica = 0; replica < replicas_; ++replica) {
        const at::Tensor& part = call_.published(replica)[i];
        if (part.defined() && (which == Summed::kAll || comm::has_rows(part)))
          parts[static_cast<std::size_t>(replica)] = part.to(at::kCPU);
      }
      if (std::ranges::any_of(parts, &at::Tensor::defined))
        sums[i] = distribute::sum_of_replicas(parts);
    }
    return sums;
  }

  std::vector<at::Tensor> on_host(std::span<const at::Tensor> gradients) const {
    std::vector<at::Tensor> there(gradients.size());
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (gradients[i].defined() && !state_->is_frozen(i)) there[i] = gradients[i].to(at::kCPU);
    }
    return there;
  }

  void write(const ParameterClient::Values& values) {
    for (std::size_t i = 0; i < values.values.size(); ++i)
      if (values.values[i].value.defined())  // not of those that are pulled by rows
        write(parts_[i], values.values[i].value, values.values[i].updates);
    record_step(values.step);
  }

  /// A server that is restarted may lack updates that are on their way to it again; the job's step
  /// does not go back.
  void record_step(std::int64_t step) {
    step_ = job_.mode == UpdateMode::kSync ? step : std::max(step_, step);
  }

  void write(const VariablePart& part, const Parameter::State& state) {
    write(part, state.value, state.updates);
    for (std::size_t slot = 0; slot < state.slots.size(); ++slot) {
      for (int master = 0; master < masters(part.variable); ++master)
        part.of(state_->slot(part.variable, slot, master)).copy_(state.slots[slot]);
    }
  }

  /// The copies that replicas read are refreshed later.
  void write(const VariablePart& part, const at::Tensor& value, std::int64_t updates) {
    const Variable& own = state_->variables()[part.variable];
    check_form(part, own.dtype(), value);
    const at::AutoDispatchBelowADInplaceOrView below;  // versions are bumped in `refresh`
    for (int master = 0; master < masters(part.variable); ++master)
      part.of(range_of(own.storage()->master(master), own)).copy_(value);
    // Parts on several servers may differ by the updates that are on their way.
    if (part.is_first()) state_->set_step(part.variable, updates);
  }

  static void check_form(const VariablePart& own, at::ScalarType dtype, const at::Tensor& value) {
    const at::IntArrayRef shape(own.shape);
    if (value.sizes() == shape && value.scalar_type() == dtype) return;
    throw Error(ErrorCode::kFailedPrecondition, "Variable ", base::quoted(own.name), " is ",
                at::toString(dtype), shape, " here and ", at::toString(value.scalar_type()),
                value.sizes(),
                " on the parameter servers: run the program that the job's chief runs, or start "
                "the servers with empty folders.");
  }

  /// Called by the replica's thread in a run.
  void refresh(int replica) {
    for (const auto& storage : state_->storages()) storage->refresh(replica);
    for (const Variable& variable : state_->variables()) variable.mark_updated(replica);
  }

  void refresh_all() {
    for (int replica = 0; replica < replicas_; ++replica) refresh(replica);
  }

  int masters(std::size_t variable) const {
    return state_->variables()[variable].storage()->masters();
  }

  std::vector<Creation> creations() const {
    std::vector<Creation> creations;
    for (const VariablePart& part : parts_) {
      const optim::GroupedHyperparameters& group = state_->group(part.variable);
      const at::Tensor& value = state_->variables()[part.variable].component(0);
      creations.push_back({.name = part.name,
                           .value = host_copy(part.of(value)),
                           .learning_rate = group.learning_rate,
                           .weight_decay = group.weight_decay});
    }
    return creations;
  }

  void assign_all() {
    std::vector<NamedState> states;
    for (const VariablePart& part : parts_) {
      const at::Tensor& value = state_->variables()[part.variable].component(0);
      Parameter::State state{
          .value = host_copy(part.of(value)), .slots = {}, .updates = state_->step(part.variable)};
      for (std::size_t slot = 0; slot < state_->rule().slots().size(); ++slot)
        state.slots.push_back(host_copy(part.of(state_->slot(part.variable, slot, 0))));
      states.push_back({.name = part.name, .state = std::move(state)});
    }
    client_->assign(states, step_);
    set_learning_rate(state_->learning_rate());  // a restored one
  }

  const std::shared_ptr<optim::OptimizerState> state_;
  const std::shared_ptr<ParameterClient> client_;
  const JobConfig job_;
  const bool is_chief_;
  const std::vector<VariablePart> parts_;        // as the servers keep the variables
  const std::vector<PlacedVariable> placement_;  // of the parts
  const int replicas_;
  distribute::CrossReplicaCall call_;
  RowCopies rows_;
  const std::unique_ptr<EarlyGradients> early_;  // null: pushes are sent when they are made
  std::vector<at::Tensor> row_sums_;             // of `aggregate`, written by replica 0 in the call
  const std::unique_ptr<distribute::GradientSynchronizer> local_;  // only its `aggregate` is used
  bool is_in_progress_ = false;         // the job: this chief or an earlier one has started it
  bool has_started_ = false;            // the copy has values of the servers
  bool may_push_ = false;               // this worker has permission for a step
  std::int64_t step_ = 0;               // of the job, when the copy was written
  std::optional<double> servers_rate_;  // in the chief; unset: not known
  distribute::UpdateStaleness staleness_;
};

}  // namespace

distribute::SynchronizerFactory remote_synchronizer(std::shared_ptr<ParameterClient> client,
                                                    RemoteSynchronizerOptions options) {
  const auto is_made = std::make_shared<bool>(false);
  return [client = std::move(client), options = std::move(options),
          is_made](const distribute::SynchronizerContext& context)
             -> std::unique_ptr<distribute::GradientSynchronizer> {
    if (*is_made) {
      throw Error(ErrorCode::kUnimplemented,
                  "A strategy with parameter servers has one optimizer, and a second was made: "
                  "train all variables with one, and give groups of them their own rates "
                  "(OptimizerOptions::groups).");
    }
    auto made = std::make_unique<RemoteSynchronizer>(context, client, options);
    *is_made = true;
    return made;
  };
}

}  // namespace brigade::ps
