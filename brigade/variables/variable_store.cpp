#include "brigade/variables/variable_store.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/replica.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/device/device_scope.h"
#include "brigade/variables/memory_order.h"
#include "brigade/variables/module_adoption.h"
#include "brigade/variables/peers.h"

namespace brigade::variables {

namespace {

void refuse_in_replica(std::string_view what) {
  check_state(comm::current_replica() == nullptr, what,
              " inside a replica: create variables and models outside of Strategy::run.");
}

/// The choice of the open device scopes.
std::string requested_device_of(const VariableBuilder& builder) {
  return device::requested_device(
      {.name = builder.spec.name,
       .kind = device::PlacedKind::kVariable,
       .bytes = static_cast<std::int64_t>(builder.components.front().nbytes())});
}

/// Whether it has its own storage, shared with no other variable.
bool has_own_storage(const Variable& variable) {
  const std::shared_ptr<VariableStorage>& storage = variable.storage();
  return storage && storage->size() == storage->next_offset(variable.numel());
}

/// The properties that must be equal in all processes.
comm::Facts facts_of(std::span<const Variable> variables) {
  comm::Facts facts;
  for (const Variable& variable : variables) {
    const bool is_contiguous = variable.memory_format() == at::MemoryFormat::Contiguous;
    facts.push_back({base::str_cat("variable ", facts.size() + 1),
                     base::str_cat(variable.name(), " ", variable.dtype(), variable.shape(),
                                   is_contiguous ? "" : " in channels-last order")});
  }
  return facts;
}

[[noreturn]] void throw_difference(const comm::FactDifference& found) {
  constexpr const char* kNone = "no more variables";
  throw Error(ErrorCode::kFailedPrecondition, "The processes made different variables: rank ",
              found.rank, " has ", found.value.value_or(kNone), " where rank 0 has ",
              found.first_value.value_or(kNone), ". Every process must build the same model.");
}

/// Verifies that all processes created the same variables (names, shapes, dtypes, orders in memory,
/// in the same order), and gives all of them rank 0's values. A collective of the processes,
/// outside of replicas. Throws kFailedPrecondition in every process, naming the first variable that
/// differs, here and on rank 0.
void agree_with_peers(std::span<const Variable> variables, const Peers& peers) {
  const at::NoGradGuard no_grad;
  comm::Communicator& processes = *peers.communicator;
  const auto found = comm::find_difference(processes, facts_of(variables));
  if (found) throw_difference(*found);
  std::vector<at::Tensor> values;
  for (const Variable& variable : variables) {
    values.push_back(variable.component(0).detach().clone(at::MemoryFormat::Contiguous));
  }
  if (values.empty()) return;
  processes.broadcast(values, 0)->wait();
  if (processes.rank() == 0) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // `assign` divides this over all components, so that each gets the first one's value.
    const bool is_shared_out = variables[i].synchronization() == Synchronization::kOnRead &&
                               variables[i].aggregation() == Aggregation::kSum;
    variables[i].assign(is_shared_out ? values[i] * peers.layout.num_replicas() : values[i]);
  }
}

}  // namespace

VariableStore::VariableStore(VariableStoreOptions options) : options_(std::move(options)) {
  check_argument(!options_.devices.empty(), "A variable store needs at least one device.");
  check_argument(
      options_.placement != StorePlacement::kDeviceScopes || options_.devices.size() == 1,
      "A variable store whose variables are placed by device scopes has one replica; it was given ",
      options_.devices.size(), " devices.");
}

VariableStore::VariableStore(std::vector<c10::Device> devices, StorageSharing sharing,
                             const Controller& controller)
    : VariableStore(
          VariableStoreOptions{.devices = std::move(devices),
                               .storage = make_flat_storage_factory(sharing, controller)}) {}

Variable VariableStore::create(const VariableSpec& spec) {
  refuse_in_replica("A variable was made");
  validate(spec);
  claim(spec.name);
  const at::NoGradGuard no_grad;
  const std::vector<c10::Device> devices = devices_of(spec);
  VariableBuilder builder{.spec = spec};
  const at::MemoryFormat format =
      effective_format(spec.initial.sizes(), stored_format(spec.memory_format));
  builder.spec.memory_format = format;
  for (const c10::Device device : devices) {
    at::Tensor component =
        spec.initial.detach().to(device, spec.initial.scalar_type(), false, /*copy=*/true, format);
    component.set_requires_grad(spec.trainable && component.is_floating_point());
    builder.components.push_back(component);
  }
  if (options_.placement == StorePlacement::kTasks)
    builder.spec.requested_device = requested_device_of(builder);
  Variable variable = std::move(builder).build();
  if (spec.trainable) {
    const std::int64_t size = spec.initial.numel();
    const FlatLayout layout(spec.initial.scalar_type(), std::span(&size, 1));
    variable.move_to(options_.storage->make(layout, devices), 0);
  }
  keep({&variable, 1});
  return variable;
}

// Parameter servers have variables in the order of their shapes, and workers copy whole ranges.
at::MemoryFormat VariableStore::stored_format(at::MemoryFormat wanted) const {
  return options_.placement == StorePlacement::kTasks ? at::MemoryFormat::Contiguous : wanted;
}

std::vector<c10::Device> VariableStore::devices_of(const VariableSpec& spec) const {
  if (!spec.device) return options_.devices;
  check_argument(options_.placement == StorePlacement::kDeviceScopes, "Variable '", spec.name,
                 "' was given a device, but the devices of this store's variables are its "
                 "strategy's: leave the device out.");
  return {*spec.device};
}

Variable VariableStore::create_named(const VariableSpec& spec, std::vector<std::string> collections,
                                     Regularizer regularizer) {
  VariableSpec chosen = spec;
  // With a controller there is one value: of batch statistics, replica 0's.
  if (options_.storage->controller() && spec.synchronization == Synchronization::kOnRead &&
      spec.aggregation == Aggregation::kMean) {
    chosen.aggregation = Aggregation::kOnlyFirstReplica;
  }
  Variable variable = create(chosen);
  const std::unique_lock lock(mutex_);
  named_index_[spec.name] = named_.size();
  named_.push_back({variable, std::move(collections), std::move(regularizer)});
  return variable;
}

std::optional<Variable> VariableStore::find(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  const auto found = named_index_.find(name);
  if (found == named_index_.end()) return std::nullopt;
  return named_[found->second].variable;
}

void VariableStore::keep_partition(const std::string& name, Partition partition) {
  const std::unique_lock lock(mutex_);
  partitions_[name] = std::move(partition);
}

std::optional<Partition> VariableStore::partition(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  const auto found = partitions_.find(name);
  if (found == partitions_.end()) return std::nullopt;
  return found->second;
}

std::vector<Variable> VariableStore::variables() const {
  const std::shared_lock lock(mutex_);
  std::vector<Variable> all;
  for (const NamedVariable& named : named_) all.push_back(named.variable);
  return all;
}

std::vector<Variable> VariableStore::variables(std::string_view collection,
                                               std::string_view prefix) const {
  const std::shared_lock lock(mutex_);
  std::vector<Variable> members;
  for (const NamedVariable& named : named_) {
    if (named.variable.name().starts_with(prefix) &&
        std::ranges::find(named.collections, collection) != named.collections.end()) {
      members.push_back(named.variable);
    }
  }
  return members;
}

std::vector<NamedVariable> VariableStore::regularized(std::string_view prefix) const {
  const std::shared_lock lock(mutex_);
  std::vector<NamedVariable> found;
  for (const NamedVariable& named : named_) {
    if (named.regularizer && named.variable.name().starts_with(prefix)) found.push_back(named);
  }
  return found;
}

std::vector<Variable> VariableStore::non_trainable_variables() const {
  const std::shared_lock lock(mutex_);
  std::vector<Variable> found;
  for (const auto& [name, weak] : names_) {
    auto variable = weak.lock();
    if (variable && !variable->trainable()) found.push_back(std::move(*variable));
  }
  return found;
}

void VariableStore::make_contiguous(std::span<const Variable> variables) {
  refuse_in_replica("Variables were moved");
  std::map<std::pair<at::ScalarType, std::string>, std::vector<Variable>> groups;
  for (const Variable& variable : variables) {
    if (!has_own_storage(variable)) continue;
    groups[{variable.dtype(), variable.component(0).device().str()}].push_back(variable);
  }
  for (const auto& [key, group] : groups) {
    if (group.size() > 1) move_to_one_storage(group);
  }
}

void VariableStore::move_to_one_storage(const std::vector<Variable>& variables) const {
  std::vector<std::int64_t> sizes;
  for (const Variable& variable : variables) sizes.push_back(variable.numel());
  const Variable& first = variables.front();
  std::vector<c10::Device> devices;
  for (int replica = 0; replica < first.num_components(); ++replica) {
    devices.push_back(first.component(replica).device());
  }
  const auto storage = options_.storage->make(FlatLayout(first.dtype(), sizes), devices);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    variables[i].move_to(storage, storage->offset(i));
  }
}

void VariableStore::make_contiguous() {
  make_contiguous(variables());
}

std::vector<Variable> VariableStore::adopt(
    std::span<const std::shared_ptr<torch::nn::Module>> replicas, const std::string& prefix) {
  refuse_in_replica("A model was made");
  check_argument(static_cast<int>(replicas.size()) == num_replicas(),
                 "A model must be built once a replica: got ", replicas.size(), " modules for ",
                 num_replicas(), " replicas.");
  const at::NoGradGuard no_grad;
  std::vector<VariableBuilder> builders = plan_adoption(replicas, prefix);
  for (const VariableBuilder& builder : builders) claim(builder.spec.name);
  for (VariableBuilder& builder : builders) {
    builder.spec.memory_format = stored_format(builder.spec.memory_format);
    if (options_.placement == StorePlacement::kTasks)
      builder.spec.requested_device = requested_device_of(builder);
  }
  std::vector<Variable> variables =
      complete_adoption(std::move(builders), options_.devices, *options_.storage);
  keep(variables);
  return variables;
}

bool VariableStore::owns(const Variable& variable) const {
  const std::shared_lock lock(mutex_);
  const auto found = names_.find(variable.name());
  if (found == names_.end()) return false;
  const auto living = found->second.lock();
  return living && living->is_same(variable);
}

bool VariableStore::is_free(const std::string& name) const {
  const std::shared_lock lock(mutex_);
  const auto found = names_.find(name);
  return found == names_.end() || found->second.expired();
}

void VariableStore::claim(const std::string& name) {
  if (is_free(name)) return;
  throw Error(ErrorCode::kAlreadyExists, "A variable named '", name,
              "' exists in this strategy already; give the second model its own name "
              "(CreateOptions::name).");
}

void VariableStore::keep(std::span<const Variable> variables) {
  if (options_.peers) {
    for (const Variable& variable : variables) variable.set_peers(options_.peers);
    agree_with_peers(variables, *options_.peers);
  }
  const std::unique_lock lock(mutex_);
  for (const Variable& variable : variables)
    names_.insert_or_assign(variable.name(), Variable::Weak(variable));
}

Variable make_variable(const VariableSpec& spec) {
  if (VariableStore* store = kStoreSlot.get()) return store->create(spec);
  return VariableStore({c10::Device(c10::kCPU)}, StorageSharing::kOneStorage).create(spec);
}

}  // namespace brigade::variables
