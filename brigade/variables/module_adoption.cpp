#include "brigade/variables/module_adoption.h"

#include <ATen/core/grad_mode.h>

#include <map>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/variables/memory_order.h"

namespace brigade::variables {

namespace {

using NamedTensors = torch::OrderedDict<std::string, at::Tensor>;

std::string describe(const at::Tensor& tensor) {
  return base::str_cat(tensor.scalar_type(), tensor.sizes());
}

std::string full_name(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

void check_alike(const NamedTensors& first, const NamedTensors& other, int replica) {
  check_argument(first.size() == other.size(), "The model has ", first.size(),
                 " tensors in replica 0 and ", other.size(), " in replica ", replica,
                 ": build the same model in every replica.");
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool alike = first[i].key() == other[i].key() &&
                       first[i].value().sizes() == other[i].value().sizes() &&
                       first[i].value().scalar_type() == other[i].value().scalar_type();
    if (!alike) {
      refuse("The model's tensor ", i, " is '", first[i].key(), "' ", describe(first[i].value()),
             " in replica 0 and '", other[i].key(), "' ", describe(other[i].value()),
             " in replica ", replica, ": build the same model in every replica.");
    }
  }
}

/// One builder for each distinct tensor of `rows[0]`; later names of the same tensor become
/// aliases.
void append_builders(std::vector<VariableBuilder>& builders, const std::vector<NamedTensors>& rows,
                     const std::string& prefix, const VariableSpec& common) {
  std::map<const void*, std::size_t> seen;
  for (std::size_t i = 0; i < rows.front().size(); ++i) {
    const at::Tensor& first = rows.front()[i].value();
    if (!first.defined()) continue;
    const std::string name = full_name(prefix, rows.front()[i].key());
    const auto [position, is_new] = seen.emplace(first.unsafeGetTensorImpl(), builders.size());
    if (!is_new) {
      builders[position->second].aliases.push_back(name);
      continue;
    }
    VariableBuilder builder{.spec = common};
    builder.spec.name = name;
    for (const NamedTensors& row : rows) builder.components.push_back(row[i].value());
    builders.push_back(std::move(builder));
  }
}

void set_parameter_spec(VariableSpec& spec, const at::Tensor& parameter) {
  spec.trainable = parameter.requires_grad();
  spec.synchronization = Synchronization::kOnWrite;
  spec.memory_format = effective_format(parameter.sizes(), parameter.suggest_memory_format());
}

void set_buffer_spec(VariableSpec& spec, const at::Tensor& buffer) {
  spec.trainable = false;
  spec.synchronization = Synchronization::kOnRead;
  spec.aggregation =
      buffer.is_floating_point() ? Aggregation::kMean : Aggregation::kOnlyFirstReplica;
}

/// Moves the parameters of one dtype to one contiguous storage and points every replica's tensor
/// there.
void make_contiguous(std::span<VariableBuilder*> builders, std::span<const c10::Device> devices,
                     const StorageFactory& storages) {
  std::vector<std::int64_t> sizes;
  for (const VariableBuilder* builder : builders)
    sizes.push_back(builder->components.front().numel());
  const at::ScalarType dtype = builders.front()->components.front().scalar_type();
  const auto storage = storages.make(FlatLayout(dtype, sizes), devices);
  for (std::size_t i = 0; i < builders.size(); ++i) {
    VariableBuilder& builder = *builders[i];
    builder.storage = storage;
    builder.offset = storage->offset(i);
    const at::Tensor initial = builder.components.front().detach().clone();
    const auto home_in = [&](const at::Tensor& buffer) {
      return from_memory_order(buffer.narrow(0, builder.offset, initial.numel()), initial.sizes(),
                               builder.spec.memory_format);
    };
    for (int master = 0; master < storage->masters(); ++master)
      home_in(storage->master(master)).copy_(initial);
    for (std::size_t replica = 0; replica < devices.size(); ++replica) {
      const at::Tensor home = home_in(storage->buffer(static_cast<int>(replica)));
      home.copy_(initial);
      builder.components[replica].set_data(home);
    }
  }
}

void spread_first(VariableBuilder& builder, std::span<const c10::Device> devices) {
  for (std::size_t replica = 0; replica < devices.size(); ++replica) {
    at::Tensor& component = builder.components[replica];
    if (component.device() != devices[replica])
      component.set_data(component.detach().to(devices[replica]));
    if (replica > 0) component.copy_(builder.components.front());
  }
}

}  // namespace

std::vector<VariableBuilder> plan_adoption(
    std::span<const std::shared_ptr<torch::nn::Module>> replicas, const std::string& prefix) {
  std::vector<NamedTensors> parameters;
  std::vector<NamedTensors> buffers;
  for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
    parameters.push_back(replicas[replica]->named_parameters());
    buffers.push_back(replicas[replica]->named_buffers());
    check_alike(parameters.front(), parameters.back(), static_cast<int>(replica));
    check_alike(buffers.front(), buffers.back(), static_cast<int>(replica));
  }
  std::vector<VariableBuilder> builders;
  append_builders(builders, parameters, prefix, {});
  const std::size_t first_buffer = builders.size();
  append_builders(builders, buffers, prefix, {});
  for (std::size_t i = 0; i < builders.size(); ++i) {
    const auto set_spec = i < first_buffer ? set_parameter_spec : set_buffer_spec;
    set_spec(builders[i].spec, builders[i].components.front());
  }
  return builders;
}

std::vector<Variable> complete_adoption(std::vector<VariableBuilder> builders,
                                        std::span<const c10::Device> devices,
                                        const StorageFactory& storages) {
  std::map<at::ScalarType, std::vector<VariableBuilder*>> parameters;
  for (VariableBuilder& builder : builders) {
    if (builder.spec.synchronization == Synchronization::kOnWrite) {
      parameters[builder.components.front().scalar_type()].push_back(&builder);
    } else {
      spread_first(builder, devices);
      if (storages.controller()) builder.spec.aggregation = Aggregation::kOnlyFirstReplica;
    }
  }
  for (auto& [dtype, group] : parameters) make_contiguous(group, devices, storages);
  std::vector<Variable> variables;
  for (VariableBuilder& builder : builders) variables.push_back(std::move(builder).build());
  return variables;
}

}  // namespace brigade::variables
