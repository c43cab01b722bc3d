#include "brigade/variables/variable_store.h"

#include <ATen/core/grad_mode.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/replica.h"
#include "brigade/variables/module_adoption.h"

namespace brigade::variables {

namespace {

void refuse_in_replica(std::string_view what) {
  check_state(
      comm::current_replica() == nullptr,
      base::str_cat(what,
                    " inside a replica: create variables and models outside of Strategy::run."));
}

}  // namespace

VariableStore::VariableStore(std::vector<c10::Device> devices, Sharing sharing)
    : devices_(std::move(devices)), sharing_(sharing) {
  check_argument(!devices_.empty(), "A variable store needs at least one device.");
}

Variable VariableStore::create(const VariableSpec& spec) {
  refuse_in_replica("A variable was made");
  validate(spec);
  claim(spec.name);
  const at::NoGradGuard no_grad;
  VariableBuilder builder{.spec = spec};
  if (spec.trainable == Trainable::kYes) {
    const std::int64_t size = spec.initial.numel();
    builder.storage = std::make_shared<FlatStorage>(spec.initial.scalar_type(), std::span(&size, 1),
                                                    devices_, sharing_);
    builder.sharing = sharing_;
  }
  for (int replica = 0; replica < num_replicas(); ++replica) {
    at::Tensor component = spec.initial.detach().to(devices_[replica], spec.initial.scalar_type(),
                                                    false, /*copy=*/true);
    if (builder.storage) {
      const at::Tensor home =
          builder.storage->buffer(replica).narrow(0, 0, component.numel()).view(component.sizes());
      home.copy_(component);
      component.set_data(home);  // unlike a view, keeps a version counter of its own
    }
    component.set_requires_grad(spec.trainable == Trainable::kYes && component.is_floating_point());
    builder.components.push_back(component);
  }
  Variable variable = std::move(builder).build();
  keep(variable);
  return variable;
}

std::vector<Variable> VariableStore::adopt(
    std::span<const std::shared_ptr<torch::nn::Module>> replicas, const std::string& prefix) {
  refuse_in_replica("A model was made");
  check_argument(static_cast<int>(replicas.size()) == num_replicas(),
                 base::str_cat("A model must be built once a replica: got ", replicas.size(),
                               " modules for ", num_replicas(), " replicas."));
  const at::NoGradGuard no_grad;
  std::vector<VariableBuilder> builders = plan_adoption(replicas, prefix);
  for (const VariableBuilder& builder : builders) claim(builder.spec.name);
  std::vector<Variable> variables = complete_adoption(std::move(builders), devices_, sharing_);
  for (const Variable& variable : variables) keep(variable);
  return variables;
}

bool VariableStore::is_free(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(name);
  return found == names_.end() || found->second.expired();
}

void VariableStore::claim(const std::string& name) {
  if (is_free(name)) return;
  throw Error(
      ErrorCode::kAlreadyExists,
      base::str_cat("A variable named '", name,
                    "' exists in this strategy already; give the second model a name of its own "
                    "(Strategy::create_named)."));
}

void VariableStore::keep(const Variable& variable) {
  const std::lock_guard lock(mutex_);
  names_[variable.name()] = variable.lifetime();
}

Variable make_variable(const VariableSpec& spec) {
  if (VariableStore* store = kStoreSlot.get()) return store->create(spec);
  return VariableStore({c10::Device(c10::kCPU)}, Sharing::kOneStorage).create(spec);
}

}  // namespace brigade::variables
