#include "brigade/train/graph/model_graph.h"

#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <chrono>

#include "brigade/base/strings.h"
#include "brigade/train/graph/operation_graph.h"

namespace brigade::train {

namespace {

using base::str_cat;
using summary::GraphNode;

std::string device_name(const distribute::Strategy& strategy, int replica) {
  return strategy.devices()[static_cast<std::size_t>(replica)].name.tensorflow_name();
}

bool is_same(const c10::Device& a, const c10::Device& b) {
  return a.type() == b.type() && (a.is_cpu() || a.index() == b.index());
}

/// The device of a replica's tensor, by the name of the strategy's device if it is one of them.
std::string device_name_of(const distribute::Strategy& strategy, int replica,
                           const c10::Device& device) {
  const device::Device& parameter_device = strategy.parameter_device();
  if (is_same(strategy.devices()[static_cast<std::size_t>(replica)].torch_device, device))
    return device_name(strategy, replica);
  if (is_same(parameter_device.torch_device, device))
    return parameter_device.name.tensorflow_name();
  return str_cat("/device:", device.is_cpu() ? "CPU:" : "GPU:",
                 static_cast<int>(std::max<c10::DeviceIndex>(device.index(), 0)));
}

/// Builds the graph of a model.
class GraphBuilder {
 public:
  explicit GraphBuilder(const distribute::Strategy& strategy) : strategy_(strategy) {}

  void add_variable(const variables::Variable& variable) {
    const std::string name = names_.unique(graph_path(variable.name()));
    const auto& storage = variable.storage();
    const bool is_on_controller = storage != nullptr && storage->is_central();
    if (is_on_controller)
      add_node(variable, name, "VariableV2", strategy_.parameter_device().name.tensorflow_name());
    std::map<const void*, std::string> names_by_storage;  // by address
    for (int replica = 0; replica < variable.num_components(); ++replica) {
      const at::Tensor& component = variable.component(replica);
      const bool is_copy = is_on_controller && storage->is_cached(replica);
      const std::string device = device_name_of(strategy_, replica, component.device());
      const auto [found, is_new] = names_by_storage.try_emplace(component.const_data_ptr(), name);
      if (is_copy) {
        found->second = str_cat(name, "/copy_", replica);
        add_node(variable, found->second, "Identity", device).inputs = {name};
      } else if (is_new && !is_on_controller) {
        if (replica > 0) found->second = str_cat(name, "/replica_", replica);
        add_node(variable, found->second, "VariableV2", device);
      }
      leaves_.emplace(component.unsafeGetTensorImpl(),
                      GraphLeaf{found->second, layer_of(graph_path(variable.name()))});
    }
  }

  void add_replica(int replica, const std::vector<OperationNode>& operations) {
    const std::string prefix = replica == 0 ? "" : str_cat("replica_", replica, "/");
    OperationScopes scopes(leaves_);
    std::vector<std::string> names;
    std::string inputs;  // the placeholder's name, once something reads it
    for (const OperationNode& operation : operations) {
      const OperationScopes::Found found = scopes.find(operation);
      const std::string layer = found.layer.empty() ? "" : found.layer + "/";
      GraphNode node{.name = names_.unique(prefix + layer + operation.kind),
                     .op = operation.kind,
                     .device = device_name_of(strategy_, replica, operation.device),
                     .inputs = {},
                     .attributes = {},
                     .output_shapes = operation.output_shapes};
      if (found.reads_inputs) {
        if (inputs.empty()) inputs = add_source(prefix + "inputs", "Placeholder", replica);
        node.inputs.push_back(inputs);
      }
      for (const OperationInput& input : operation.inputs) {
        std::string source = input.leaf != nullptr ? leaf_name(input.leaf, replica, prefix)
                             : input.operation     ? names[*input.operation]
                                                   : "";
        if (source.empty()) continue;
        if (input.output > 0) source += str_cat(":", input.output);
        node.inputs.push_back(std::move(source));
      }
      names.push_back(node.name);
      graph_.names[{replica, operation.sequence}] = node.name;
      graph_.nodes.push_back(std::move(node));
    }
  }

  ModelGraph finish() && { return std::move(graph_); }

 private:
  GraphNode& add_node(const variables::Variable& variable, const std::string& name,
                      std::string kind, std::string device) {
    const summary::Shape shape = variable.shape().vec();
    const bool is_trainable = variable.trainable();
    graph_.nodes.push_back({.name = name,
                            .op = std::move(kind),
                            .device = std::move(device),
                            .inputs = {},
                            .attributes = {{"shape", shape},
                                           {"dtype", str_cat(variable.dtype())},
                                           {"trainable", is_trainable},
                                           {"variable", variable.name()}},
                            .output_shapes = {shape}});
    return graph_.nodes.back();
  }

  /// Adds a node without inputs, and returns its name.
  std::string add_source(const std::string& base_name, const char* kind, int replica) {
    std::string name = names_.unique(base_name);
    graph_.nodes.push_back({.name = name, .op = kind, .device = device_name(strategy_, replica)});
    return name;
  }

  /// A leaf that is not a variable of the training is a tensor of the program.
  std::string leaf_name(const void* leaf, int replica, const std::string& prefix) {
    const auto found = leaves_.find(leaf);
    if (found != leaves_.end()) return found->second.node;
    const std::string name = add_source(prefix + "tensor", "Const", replica);
    leaves_.emplace(leaf, GraphLeaf{name, ""});
    return name;
  }

  const distribute::Strategy& strategy_;
  ModelGraph graph_;
  UniqueNames names_;
  GraphLeaves leaves_;
};

}  // namespace

ModelGraph model_graph(const distribute::Strategy& strategy,
                       std::span<const variables::Variable> variables,
                       const OperationRecord& record) {
  GraphBuilder builder(strategy);
  for (const variables::Variable& variable : variables) builder.add_variable(variable);
  for (const auto& [replica, root] : record.backward_roots)
    builder.add_replica(static_cast<int>(replica), operations_before(*root));
  return std::move(builder).finish();
}

std::vector<summary::NodeTiming> node_timings(const ModelGraph& graph,
                                              const OperationRecord& record) {
  struct Passes {
    const Operation* forward = nullptr;
    const Operation* backward = nullptr;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Passes> passes;
  for (const Operation& each : record.operations) {
    const std::pair key{each.replica, each.sequence};
    if (!graph.names.contains(key)) continue;
    Passes& found = passes[key];
    // Of nested operations with the same number, the innermost, which began last, created the node.
    const bool is_backward = each.kind == Operation::Kind::kBackward;
    const Operation*& best = is_backward ? found.backward : found.forward;
    if (best == nullptr || each.begin > best->begin) best = &each;
  }
  std::map<std::string, std::string> devices;  // by the node's name
  for (const GraphNode& node : graph.nodes) devices.emplace(node.name, node.device);

  std::vector<summary::NodeTiming> timings;
  for (const auto& [key, found] : passes) {
    const Operation& first = found.forward != nullptr ? *found.forward : *found.backward;
    std::chrono::nanoseconds duration{0};
    for (const Operation* each : {found.forward, found.backward}) {
      if (each != nullptr) duration += each->duration;
    }
    const std::string& name = graph.names.at(key);
    using std::chrono::microseconds;
    timings.push_back({.node = name,
                       .device = devices.at(name),
                       .begin = std::chrono::duration_cast<microseconds>(first.begin),
                       .duration = std::chrono::duration_cast<microseconds>(duration),
                       .thread = static_cast<std::uint32_t>(key.first)});
  }
  return timings;
}

void GraphWriter::before_step(const base::Clock& clock) {
  if (!is_due_) return;
  recorder_.emplace(clock);
  recorder_->start();
}

void GraphWriter::after_step(summary::SummaryWriter& summaries, const TrainingState& state) {
  if (!recorder_) return;
  is_due_ = false;
  const OperationRecord record = recorder_->stop();
  recorder_.reset();
  summaries.graph(model_graph(state.strategy(), state.variables(), record).nodes);
}

}  // namespace brigade::train
