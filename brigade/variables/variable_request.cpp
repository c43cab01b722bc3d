#include "brigade/variables/variable_request.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/base/strings.h"
#include "brigade/comm/replica.h"
#include "brigade/device/device_scope.h"
#include "brigade/variables/collections.h"

namespace brigade::variables {

namespace {

using base::str_cat;

std::optional<at::ScalarType> dtype_of(const Initializer& initializer) {
  if (initializer.value()) return initializer.value()->scalar_type();
  return initializer.dtype();
}

std::string devices_text(const VariableStore& store) {
  std::vector<std::string> names;
  for (const c10::Device device : store.devices()) {
    const std::string name = device_text(device);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return base::join(names, ", ");
}

void check_alike(const Variable& found, const GetVariableRequest& request) {
  check_argument(!request.shape || found.shape() == at::IntArrayRef(*request.shape), "Variable '",
                 found.name(), "' is requested with shape ",
                 at::IntArrayRef(request.shape.value_or(std::vector<std::int64_t>{})),
                 " and has shape ", found.shape(),
                 ": give the layer inputs of the size with which it was created, or another name.");
  check_argument(found.dtype() == request.options.dtype, "Variable '", found.name(),
                 "' is requested with dtype ",
                 c10::toString(request.options.dtype.value_or(at::kFloat)), " and has dtype ",
                 c10::toString(found.dtype()),
                 ": give the dtype that it was created with (in the call or the scope).");
}

[[noreturn]] void refuse_existing(const std::string& name) {
  throw Error(ErrorCode::kAlreadyExists, "Variable '", name,
              "' already exists, and its scope creates variables: to get it open the scope with "
              "Reuse::kYes, or with Reuse::kAuto to get or create it.");
}

[[noreturn]] void refuse_missing(const std::string& name) {
  if (comm::current_replica() != nullptr) {
    throw Error(ErrorCode::kNotFound, "Variable '", name,
                "' does not exist: variables are created by Strategy::create, outside of replicas. "
                "Build with the function that the replicas run.");
  }
  throw Error(ErrorCode::kNotFound, "Variable '", name,
              "' does not exist, or was not created by get_variable, and its scope reuses: open "
              "the scope with Reuse::kAuto to get or create it.");
}

/// The device that the scopes choose, if this store uses device scopes; writes the placement log.
std::optional<c10::Device> place(Graph& graph, const VariableSpec& spec) {
  const VariableStore& store = graph.store();
  const std::string& name = spec.name;
  const auto bytes = static_cast<std::int64_t>(spec.initial.nbytes());
  std::optional<c10::Device> chosen;
  if (store.placement() == StorePlacement::kDeviceScopes && device::device_scope_is_open()) {
    const auto device =
        graph.placer().place({.name = name, .kind = device::PlacedKind::kVariable, .bytes = bytes});
    if (device) chosen = device->torch_device;
  }
  // Where a task is chosen, the log line comes from who chooses it: when the optimizer is made.
  const bool is_logged_later = store.placement() == StorePlacement::kTasks && spec.trainable;
  if (!chosen && !is_logged_later && graph.logs_placement()) {
    graph.placer().record(device::PlacedKind::kVariable, name, devices_text(store));
  }
  return chosen;
}

bool is_trainable(const VariableOptions& options) {
  return options.trainable.value_or(options.synchronization != Synchronization::kOnRead);
}

std::vector<std::string> collections_of(const VariableOptions& options) {
  std::vector<std::string> names =
      options.collections.value_or(std::vector<std::string>{kGlobalVariables});
  if (is_trainable(options) && std::ranges::find(names, kTrainableVariables) == names.end())
    names.emplace_back(kTrainableVariables);
  return names;
}

Variable make(Graph& graph, const GetVariableRequest& request) {
  const VariableOptions& options = request.options;
  VariableSpec spec{.name = request.name,
                    .initial = initial_value(graph.store(), request),
                    .trainable = is_trainable(options),
                    .synchronization = options.synchronization,
                    .aggregation = options.aggregation,
                    .memory_format = options.memory_format.value_or(at::MemoryFormat::Contiguous)};
  if (request.slice && request.name.starts_with(partition_prefix(request.slice->whole)))
    spec.slice = request.slice;
  validate(spec);  // before device functions are called for the variable
  spec.device = place(graph, spec);
  return graph.store().create_named(spec, collections_of(options), options.regularizer);
}

Variable find_or_make(Graph& graph, Reuse reuse, const GetVariableRequest& request) {
  check_initializer(request);
  if (const std::optional<Variable> found = graph.store().find(request.name)) {
    if (reuse == Reuse::kNo) refuse_existing(request.name);
    check_alike(*found, request);
    return *found;
  }
  if (reuse == Reuse::kYes) refuse_missing(request.name);
  return make(graph, request);
}

Initializer default_initializer(const GetVariableRequest& request) {
  const at::ScalarType dtype = *request.options.dtype;
  if (c10::isFloatingType(dtype)) return glorot_uniform_initializer();
  check_argument(c10::isIntegralType(dtype, /*includeBool=*/true), "Variable '", request.name,
                 "' of dtype ", c10::toString(dtype),
                 " needs an initializer: there is no default for its dtype.");
  return zeros_initializer();
}

}  // namespace

GetVariableRequest make_request(const VariableScope& scope, const std::string& name,
                                const OptionalShape& shape, const VariableOptions& options) {
  check_argument(!name.empty(), "A variable needs a name.");
  const VariableScopeOptions& defaults = scope.defaults();
  GetVariableRequest request{.name = scope.full_name(name), .shape = shape, .options = options};
  VariableOptions& merged = request.options;
  if (!merged.initializer) merged.initializer = defaults.initializer;
  if (!merged.regularizer) merged.regularizer = defaults.regularizer;
  if (!merged.partitioner) merged.partitioner = defaults.partitioner;
  if (!merged.caching_device) merged.caching_device = defaults.caching_device;
  if (!merged.dtype) merged.dtype = dtype_of(merged.initializer);
  if (!merged.dtype) merged.dtype = defaults.dtype.value_or(at::kFloat);
  return request;
}

std::string device_text(c10::Device device) {
  return str_cat(device.is_cpu() ? "cpu" : "gpu", ":", std::max<int>(device.index(), 0));
}

std::string partition_prefix(const std::string& name) {
  return name + "/part_";
}

Reuse reuse_in_force(const VariableScope& scope) {
  return comm::current_replica() != nullptr ? Reuse::kYes : scope.reuse();
}

Variable fetch(Graph& graph, const CustomGetter& getter, Reuse reuse,
               const GetVariableRequest& request) {
  if (!getter) return find_or_make(graph, reuse, request);
  return getter([&](const GetVariableRequest& last) { return find_or_make(graph, reuse, last); },
                request);
}

Variable fetch(Graph& graph, const VariableScope& scope, const GetVariableRequest& request) {
  return fetch(graph, scope.defaults().custom_getter, reuse_in_force(scope), request);
}

OptionalShape check_initializer(const GetVariableRequest& request) {
  const Initializer& initializer = request.options.initializer;
  const auto dtype = dtype_of(initializer);
  check_argument(!dtype || dtype == request.options.dtype, "Variable '", request.name,
                 "' is requested with dtype ",
                 c10::toString(request.options.dtype.value_or(at::kFloat)),
                 ", but its initializer '", initializer.name(), "' makes ",
                 c10::toString(dtype.value_or(at::kFloat)), ".");
  if (!initializer.value()) return request.shape;
  check_argument(!request.shape, "Variable '", request.name,
                 "' has an initializer that is a value with a shape: do not give a shape.");
  return initializer.value()->sizes().vec();
}

at::Tensor initial_value(const VariableStore& store, const GetVariableRequest& request) {
  const OptionalShape shape = check_initializer(request);
  check_argument(shape.has_value(), "Variable '", request.name,
                 "' is to be created, but its shape is not known: give a shape, or an initializer "
                 "that is a value.");
  const Initializer& given = request.options.initializer;
  if (given.value()) return *given.value();
  const Initializer initializer = given ? given : default_initializer(request);
  return initializer(*shape, *request.options.dtype,
                     base::derive_seed(store.seed(), request.name, 0, 0));
}

}  // namespace brigade::variables
