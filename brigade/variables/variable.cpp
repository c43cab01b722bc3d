#include "brigade/variables/variable.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cctype>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/hierarchical.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/replica.h"
#include "brigade/variables/memory_order.h"

namespace brigade::variables {

struct Variable::State {
  VariableSpec spec;
  std::vector<std::string> aliases;
  std::vector<at::Tensor> components;
  std::vector<std::uint32_t>
      versions;  // [replica], as last written by Brigade; its replica's thread only
  std::vector<const void*> addresses;  // [replica], of the components when Brigade placed them
  std::shared_ptr<VariableStorage> storage;
  std::int64_t offset;
  std::shared_ptr<const Peers> peers;  // null: there is one process only
};

namespace {

bool is_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '/' || c == '-' || c == ':';
  });
}

}  // namespace

std::string_view to_string(Synchronization synchronization) {
  switch (synchronization) {
    case Synchronization::kAuto:
      return "auto";
    case Synchronization::kNone:
      return "none";
    case Synchronization::kOnWrite:
      return "on_write";
    case Synchronization::kOnRead:
      return "on_read";
  }
  return "unknown";
}

std::string_view to_string(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::kNone:
      return "none";
    case Aggregation::kSum:
      return "sum";
    case Aggregation::kMean:
      return "mean";
    case Aggregation::kOnlyFirstReplica:
      return "only_first_replica";
  }
  return "unknown";
}

void validate(const VariableSpec& spec) {
  using base::str_cat;
  check_argument(is_name(spec.name), "Variable name '", spec.name,
                 "' is not allowed: use letters, digits and any of . _ / - :");
  check_argument(spec.initial.defined(), "Variable '", spec.name, "' has no initial value.");
  check_argument(spec.synchronization != Synchronization::kNone, "Variable '", spec.name,
                 "' has synchronization none; use auto, on_write or on_read.");
  check_argument(spec.aggregation != Aggregation::kMean || spec.initial.is_floating_point(),
                 "Variable '", spec.name,
                 "' is integral and cannot be aggregated by mean; use sum or only_first_replica.");
  check_argument(spec.synchronization != Synchronization::kOnRead || !spec.trainable, "Variable '",
                 spec.name, "' is synchronized on read and therefore cannot be trainable.");
  const bool is_shaped =
      spec.memory_format == at::MemoryFormat::Contiguous ||
      (spec.memory_format == at::MemoryFormat::ChannelsLast && spec.initial.dim() == 4);
  check_argument(is_shaped, "Variable '", spec.name, "' has the memory format ", spec.memory_format,
                 " and shape ", spec.initial.sizes(),
                 "; use Contiguous, or ChannelsLast with four dimensions.");
}

Variable VariableBuilder::build() && {
  auto state = std::make_shared<Variable::State>();
  state->spec = std::move(spec);
  state->spec.initial.reset();
  state->spec.memory_format =
      effective_format(components.front().sizes(), state->spec.memory_format);
  if (state->spec.synchronization == Synchronization::kAuto)
    state->spec.synchronization = Synchronization::kOnWrite;
  state->aliases = std::move(aliases);
  state->components = std::move(components);
  for (const at::Tensor& component : state->components) {
    state->versions.push_back(static_cast<std::uint32_t>(component._version()));
    state->addresses.push_back(storage ? component.const_data_ptr() : nullptr);
  }
  state->storage = std::move(storage);
  state->offset = offset;
  return Variable(std::move(state));
}

const std::string& Variable::name() const {
  return state_->spec.name;
}
const std::vector<std::string>& Variable::aliases() const {
  return state_->aliases;
}
at::IntArrayRef Variable::shape() const {
  return state_->components.front().sizes();
}
at::ScalarType Variable::dtype() const {
  return state_->components.front().scalar_type();
}
std::int64_t Variable::numel() const {
  return state_->components.front().numel();
}
bool Variable::trainable() const {
  return state_->spec.trainable;
}
Synchronization Variable::synchronization() const {
  return state_->spec.synchronization;
}
Aggregation Variable::aggregation() const {
  return state_->spec.aggregation;
}
const std::optional<VariableSlice>& Variable::slice() const {
  return state_->spec.slice;
}
const std::string& Variable::requested_device() const {
  return state_->spec.requested_device;
}
at::MemoryFormat Variable::memory_format() const {
  return state_->spec.memory_format;
}
int Variable::num_components() const {
  return static_cast<int>(state_->components.size());
}
const std::shared_ptr<VariableStorage>& Variable::storage() const {
  return state_->storage;
}
std::int64_t Variable::offset() const {
  return state_->offset;
}
at::Tensor Variable::part_of(const at::Tensor& flat) const {
  return from_memory_order(flat.narrow(0, offset(), numel()), shape(), memory_format());
}

const at::Tensor& Variable::component(int replica) const {
  return state_->components.at(replica);
}

const at::Tensor& Variable::local() const {
  const comm::Replica* replica = comm::current_replica();
  if (replica == nullptr) return state_->components.front();
  if (replica->local_id >= num_components()) {
    throw Error(ErrorCode::kFailedPrecondition, "Variable '", name(), "' has ", num_components(),
                " component(s) and is used in replica ", replica->id, " of ", replica->count,
                ": it was not created by this strategy. Create it under its scope().");
  }
  return state_->components[replica->local_id];
}

at::Tensor Variable::read() const {
  if (comm::current_replica() != nullptr) return local();
  const at::NoGradGuard no_grad;
  const auto& components = state_->components;
  if (synchronization() != Synchronization::kOnRead) return components.front().detach().clone();
  if (aggregation() == Aggregation::kOnlyFirstReplica) {
    const at::Tensor first = components.front().detach().clone();
    if (state_->peers) state_->peers->communicator->broadcast({&first, 1}, 0)->wait();
    return first;
  }
  check_state(aggregation() != Aggregation::kNone, "Variable '", name(),
              "' differs between replicas and has no aggregation: read it inside a replica, or "
              "give it one (sum, mean, only_first_replica).");
  const at::Tensor sum = sum_of_components();
  if (aggregation() == Aggregation::kMean) sum.div_(static_cast<double>(num_components_in_all()));
  return sum.to(dtype());
}

/// In the accumulation dtype, over all processes.
at::Tensor Variable::sum_of_components() const {
  const Peers* const peers = state_->peers.get();
  const std::vector<at::Tensor>& components = state_->components;
  return comm::sum_over_replicas(peers ? peers->communicator.get() : nullptr,
                                 peers ? peers->layout : comm::ProcessLayout{}, {&components, 1},
                                 {&components.front(), 1})
      .front();
}

int Variable::num_components_in_all() const {
  return state_->peers ? state_->peers->layout.num_replicas() : num_components();
}

void Variable::set_peers(std::shared_ptr<const Peers> peers) const {
  state_->peers = std::move(peers);
}

void Variable::assign(const at::Tensor& value) const {
  check_shape(value, "assign");
  const at::NoGradGuard no_grad;
  if (comm::current_replica() != nullptr) return assign_in_replica(value);
  if (synchronization() != Synchronization::kOnRead || aggregation() != Aggregation::kSum)
    return write_all(value);
  const int components = num_components_in_all();
  if (c10::isFloatingType(dtype())) return write_all(value.div(components));
  // Integers do not always divide evenly: the first component gets the remainder.
  const at::Tensor total = value.to(dtype());
  const at::Tensor each = total.div(components, "trunc");
  write_all(each);
  if (state_->peers && state_->peers->communicator->rank() != 0) return;
  component(0).copy_(total - each * (components - 1));
  mark_updated(0);
}

void Variable::assign_add(const at::Tensor& value) const {
  check_shape(value, "assign_add");
  const at::NoGradGuard no_grad;
  if (comm::current_replica() != nullptr) {
    if (synchronization() == Synchronization::kOnRead) return assign_in_replica(local() + value);
    // The sum of increments, not of values: aggregate first, add once.
    const at::Tensor increment = aggregate_of_replicas(value);
    const at::Tensor next = local() + increment;
    barrier(next);  // all replicas have read before any writes
    return write_replica(comm::current_replica()->local_id, next);
  }
  check_state(
      !(synchronization() == Synchronization::kOnRead && aggregation() == Aggregation::kSum),
      "assign_add on '", name(),
      "', which sums its components when read, has no meaning outside of a replica; use assign, or "
      "add inside a replica.");
  if (is_shared()) return write_all(state_->components.front() + value.to(component(0).device()));
  for (int replica = 0; replica < num_components(); ++replica) {
    write_replica(replica, component(replica) + value.to(component(replica).device()));
  }
}

void Variable::assign_in_replica(const at::Tensor& value) const {
  const comm::Replica& replica = *comm::current_replica();
  local();  // refuses a variable of another strategy
  if (synchronization() == Synchronization::kOnRead) return write_replica(replica.local_id, value);
  write_replica(replica.local_id, aggregate_of_replicas(value));
}

at::Tensor Variable::aggregate_of_replicas(const at::Tensor& value) const {
  const comm::Replica& replica = *comm::current_replica();
  const std::vector<at::Tensor> all = replica.communicator->all_gather(value.to(dtype()));
  switch (aggregation()) {
    case Aggregation::kSum:
      return comm::combine_by_tree(all, comm::ReduceOp::kSum);
    case Aggregation::kMean:
      return comm::combine_by_tree(all, comm::ReduceOp::kMean);
    case Aggregation::kOnlyFirstReplica:
      return all.front();
    case Aggregation::kNone:
      break;
  }
  for (std::size_t other = 1; other < all.size(); ++other) {
    check_argument(at::equal(all.front(), all[other]), "Variable '", name(),
                   "' is written with different values in replica 0 and replica ", other,
                   " and has no aggregation: give it one (sum, mean, only_first_replica).");
  }
  return all.front();
}

void Variable::write_replica(int replica, const at::Tensor& value) const {
  if (!is_shared() || replica == 0) master(replica).copy_(value);
  if (is_cached(replica)) component(replica).detach().copy_(value);
  mark_updated(replica);
  // A reader of shared storage must wait for its only writer.
  if (is_shared() && comm::current_replica() != nullptr) barrier(component(replica));
}

bool Variable::is_shared() const {
  return state_->storage && state_->storage->is_shared();
}

bool Variable::is_cached(int replica) const {
  return state_->storage && state_->storage->is_cached(replica);
}

at::Tensor Variable::master(int replica) const {
  if (!state_->storage) return component(replica).detach();
  return part_of(state_->storage->master(replica));
}

void Variable::barrier(const at::Tensor& own) const {
  comm::Communicator& communicator = *comm::current_replica()->communicator;
  const bool shares_streams =
      state_->storage && (state_->storage->is_central() || (is_shared() && !own.is_cpu()));
  if (!shares_streams) return communicator.barrier();
  // On GPUs a barrier synchronizes the threads but not the streams; an exchange of tensors
  // synchronizes both.
  communicator.all_gather(own.detach().reshape(-1).narrow(0, 0, own.numel() > 0 ? 1 : 0));
}

void Variable::write_all(const at::Tensor& value) const {
  const int masters = state_->storage ? state_->storage->masters() : num_components();
  for (int replica = 0; replica < masters; ++replica) master(replica).copy_(value);
  for (int replica = 0; replica < num_components(); ++replica) {
    if (is_cached(replica)) component(replica).detach().copy_(value);
    mark_updated(replica);
  }
}

void Variable::mark_updated(int replica) const {
  const at::Tensor& component = state_->components[replica];
  torch::autograd::impl::bump_version(component);
  state_->versions[replica] = static_cast<std::uint32_t>(component._version());
}

void Variable::move_to(std::shared_ptr<VariableStorage> storage, std::int64_t offset) const {
  const at::NoGradGuard no_grad;
  const auto home_in = [&](const at::Tensor& buffer) {
    return from_memory_order(buffer.narrow(0, offset, numel()), shape(), memory_format());
  };
  for (int replica = 0; replica < storage->masters(); ++replica) {
    home_in(storage->master(replica)).copy_(component(replica).detach());
  }
  for (int replica = 0; replica < num_components(); ++replica) {
    const at::Tensor home = home_in(storage->buffer(replica));
    if (storage->is_cached(replica)) home.copy_(component(replica).detach());
    state_->components[replica].set_data(home);  // unlike a view, keeps its own version counter
    state_->addresses[replica] = home.const_data_ptr();
  }
  state_->storage = std::move(storage);
  state_->offset = offset;
  for (int replica = 0; replica < num_components(); ++replica) mark_updated(replica);
}

void Variable::check_untouched(int replica) const {
  const at::Tensor& own = state_->components[replica];
  if (state_->storage && numel() > 0 &&
      (own.scalar_type() != state_->storage->dtype() ||
       own.const_data_ptr() != state_->addresses[replica])) {
    throw Error(ErrorCode::kFailedPrecondition, "Variable '", name(),
                "' was moved to other memory in replica ", replica,
                ", where its optimizer does not see it: convert the model (to, set_data) before it "
                "is created by the strategy.");
  }
  // Tensor's member functions for these use dispatch tables, and for .grad look for a graph first.
  const at::TensorImpl& plain = *own.unsafeGetTensorImpl();
  const std::uint32_t version = plain.version_counter().current_version();
  if (version != state_->versions[replica]) {
    throw Error(ErrorCode::kFailedPrecondition, "Variable '", name(),
                "' was changed in place in replica ", replica,
                " by other code than its optimizer, so the replicas may differ. Train with "
                "Strategy::optimizer (a torch::optim optimizer knows one replica only), set values "
                "with Variable::assign, or change the model before it is created by the strategy.");
  }
  if (!plain.grad().defined()) return;
  throw Error(ErrorCode::kFailedPrecondition, "Variable '", name(),
              "' has a gradient in .grad in replica ", replica,
              ", where Brigade's optimizers do not look: backward() was called by hand. Train with "
              "Strategy::optimizer: minimize(loss), or compute_gradients(loss) and "
              "apply_gradients; for gradients of your own use torch::autograd::grad. zero_grad() "
              "of the module forgets this one.");
}

void Variable::check_shape(const at::Tensor& value, std::string_view call) const {
  if (!value.defined() || value.sizes() != shape()) {
    refuse(call, " on '", name(), "': the value has shape ",
           value.defined() ? base::str_cat(value.sizes()) : "(undefined)", " and the variable ",
           shape(), ".");
  }
}

}  // namespace brigade::variables
