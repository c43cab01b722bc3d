#include "brigade/variables/layer_value.h"

#include <ATen/ops/cat.h>

#include "brigade/base/strings.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/variable_request.h"

namespace brigade::variables {

namespace {

/// The device that caches reads. A strategy's variables are on every replica's device already.
std::optional<c10::Device> caching_device(Graph& graph, const VariableOptions& options) {
  if (!options.caching_device || graph.store().placement() != StorePlacement::kDeviceScopes)
    return std::nullopt;
  return graph.placer().resolve(*options.caching_device).torch_device;
}

at::Tensor value_of(Graph& graph, const Variable& variable, std::optional<c10::Device> cache,
                    std::optional<c10::Device> device) {
  at::Tensor value = variable.local();
  if (cache) value = graph.values().get(value, *cache);
  return device ? graph.values().get(value, *device) : value;
}

at::Tensor place_in_stage(const std::string& layer_name, const at::Tensor& input) {
  const std::string device =
      device::requested_device({.name = layer_name, .kind = device::PlacedKind::kLayer});
  Graph* graph = current_graph();
  if (graph != nullptr && graph->logs_placement()) {
    graph->placer().record(device::PlacedKind::kLayer, layer_name,
                           device.empty() ? device_text(input.device()) : device);
  }
  return device.empty() ? input : comm::place_layer(layer_name, device, input);
}

}  // namespace

std::optional<c10::Device> layer_device(const std::string& layer_name) {
  Graph* graph = current_graph();
  if (graph == nullptr || !device::device_scope_is_open() || comm::has_stages())
    return std::nullopt;
  const auto device =
      graph->placer().place({.name = layer_name, .kind = device::PlacedKind::kLayer});
  if (!device) return std::nullopt;
  return device->torch_device;
}

at::Tensor place_layer(const std::string& layer_name, const at::Tensor& input) {
  if (comm::has_stages()) return place_in_stage(layer_name, input);
  const std::optional<c10::Device> device = layer_device(layer_name);
  if (device && *device != input.device()) return input.to(*device);
  const Graph* graph = current_graph();
  if (!device && graph != nullptr && graph->logs_placement()) {
    current_graph()->placer().record(device::PlacedKind::kLayer, layer_name,
                                     device_text(input.device()));
  }
  return input;
}

at::Tensor get_value(const std::string& name, const std::optional<std::vector<std::int64_t>>& shape,
                     const VariableOptions& options, std::optional<c10::Device> device) {
  Graph& graph = require_graph("get_value");
  const VariableScope scope = get_variable_scope();
  const GetVariableRequest request = make_request(scope, name, shape, options);
  if (!device) device = layer_device(graph.name_scope() + name);
  const std::optional<c10::Device> cache = caching_device(graph, request.options);
  const std::optional<Partition> cut = partition_in_force(graph.store(), scope, request);
  if (!cut) return value_of(graph, fetch(graph, scope, request), cache, device);
  const PartitionedVariable whole = fetch_parts(graph, scope, request, *cut);
  if (!device) device = whole.parts().front().local().device();
  std::vector<at::Tensor> values;
  for (const Variable& part : whole.parts()) {
    values.push_back(value_of(graph, part, cache, device));
  }
  return values.size() == 1 ? values.front() : at::cat(values, whole.axis());
}

device::DeviceScope colocate_with(const Variable& variable) {
  const c10::Device home = variable.component(0).device();
  if (home.is_cpu()) return device::with_device("cpu:0");
  return device::with_device(base::str_cat("gpu:", static_cast<int>(home.index())));
}

}  // namespace brigade::variables
