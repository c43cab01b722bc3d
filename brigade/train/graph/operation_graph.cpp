#include "brigade/train/graph/operation_graph.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "brigade/base/strings.h"

namespace brigade::train {

namespace {

/// Operations whose unknown input is usually a constant: the rate of weight decay, the divisor of a
/// mean.
bool takes_constants(std::string_view kind) {
  return kind == "Add" || kind == "Sub" || kind == "Mul" || kind == "Div" || kind == "Pow";
}

std::int64_t elements(const OperationNode& operation) {
  std::int64_t product = 1;
  if (!operation.output_shapes.empty()) {
    for (const std::int64_t size : operation.output_shapes.front()) product *= size;
  }
  return product;
}

std::string_view parent(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;

/// All nodes in topological order. Iterative: with deep models, recursion would overflow the stack.
std::vector<Node*> topological_order(Node& root) {
  std::vector<Node*> order;
  std::unordered_set<Node*> seen = {&root};
  std::vector<std::pair<Node*, std::size_t>> path = {{&root, 0}};  // and the next edge of each
  while (!path.empty()) {
    auto& [node, next] = path.back();
    if (next == node->num_outputs()) {
      order.push_back(node);
      path.pop_back();
      continue;
    }
    Node* producer = node->next_edge(next++).function.get();
    if (producer != nullptr && seen.insert(producer).second) path.emplace_back(producer, 0);
  }
  return order;
}

std::vector<summary::Shape> shapes(const Node& node) {
  std::vector<summary::Shape> found;
  for (std::uint32_t i = 0; i < node.num_inputs(); ++i) {
    const auto& metadata = node.input_metadata(i);
    if (metadata.is_nested_tensor()) return {};
    summary::Shape& shape = found.emplace_back();
    for (const c10::SymInt& size : metadata.shape_as_dim_vector())
      shape.push_back(size.maybe_as_int().value_or(-1));
  }
  return found;
}

OperationInput operation_input(const Edge& edge,
                               const std::unordered_map<Node*, std::size_t>& index_of) {
  if (!edge.is_valid()) return {};
  if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(edge.function.get())) {
    return {.leaf = leaf->variable.unsafeGetTensorImpl(), .leaf_elements = leaf->variable.numel()};
  }
  const auto found = index_of.find(edge.function.get());
  if (found == index_of.end()) return {};
  return {.operation = found->second, .output = edge.input_nr};
}

}  // namespace

OperationScopes::Found OperationScopes::find(const OperationNode& operation) {
  Result result;
  std::vector<std::string> read,
      derived;  // layers of weights, and of results computed from weights
  bool reads_unknown = false, reads_data = false;
  for (const OperationInput& input : operation.inputs) {
    if (input.leaf != nullptr) {
      const auto leaf = leaves_.find(input.leaf);
      read.push_back(leaf == leaves_.end() ? "" : leaf->second.layer);
      result.weights.emplace(input.leaf, input.leaf_elements);
    } else if (input.operation) {
      const Result& source = results_[*input.operation];
      if (!source.is_of_weights) {
        reads_data = true;
        continue;
      }
      (source.carries_them ? read : derived).push_back(source.layer);
      result.weights.insert(source.weights.begin(), source.weights.end());
    } else {
      reads_unknown = true;
    }
  }
  const bool is_elementwise = takes_constants(operation.kind);
  result.is_of_weights =
      !reads_data && !result.weights.empty() && (!reads_unknown || is_elementwise);
  std::int64_t weights = 0;
  for (const auto& [leaf, count] : result.weights) weights += count;
  result.carries_them = result.is_of_weights && elements(operation) == weights;
  if (!read.empty()) {
    result.layer = read.front();
  } else if (result.is_of_weights && std::adjacent_find(derived.begin(), derived.end(),
                                                        std::not_equal_to<>()) == derived.end()) {
    result.layer = derived.front();
  }
  const bool reads_inputs = reads_unknown && !read.empty() && !result.is_of_weights && !reads_data;
  Found found{result.layer, reads_inputs};
  results_.push_back(std::move(result));
  return found;
}

std::string graph_path(std::string_view variable) {
  std::string path(variable);
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

std::string layer_of(std::string_view path) {
  const std::string_view above = parent(path);
  const bool is_part = path.substr(path.rfind('/') + 1).starts_with("part_");
  return std::string(is_part ? parent(above) : above);
}

std::string operation_kind(std::string_view node) {
  if (const auto open = node.find("CppNode<"); open != node.npos) {
    node = node.substr(0, node.rfind('>'));
    node.remove_prefix(open + std::string_view("CppNode<").size());
  }
  if (const auto colons = node.rfind("::"); colons != node.npos) node.remove_prefix(colons + 2);
  while (!node.empty() && node.back() >= '0' && node.back() <= '9') node.remove_suffix(1);
  if (node.ends_with("Backward")) node.remove_suffix(std::string_view("Backward").size());
  std::string kind;
  for (const char c : node) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') kind += c;
  }
  return kind.empty() ? "Operation" : kind;
}

std::string UniqueNames::unique(const std::string& name) {
  std::string candidate = name;
  for (int& count = used_[name]; count > 0 && used_.contains(candidate); ++count)
    candidate = base::str_cat(name, "_", count);
  ++used_[candidate];
  return candidate;
}

std::vector<OperationNode> operations_before(Node& root) {
  std::vector<OperationNode> operations;
  std::unordered_map<Node*, std::size_t> index_of;
  for (Node* node : topological_order(root)) {
    // For several root tensors libtorch adds a node that is not an operation.
    const bool is_operation =
        node->num_inputs() > 0 && dynamic_cast<AccumulateGrad*>(node) == nullptr;
    if (!is_operation) continue;
    OperationNode operation{.kind = operation_kind(node->name()),
                            .sequence = static_cast<std::int64_t>(node->sequence_nr()),
                            .device = node->input_metadata(0).device(),
                            .output_shapes = shapes(*node),
                            .inputs = {}};
    for (const Edge& edge : node->next_edges())
      operation.inputs.push_back(operation_input(edge, index_of));
    index_of.emplace(node, operations.size());
    operations.push_back(std::move(operation));
  }
  return operations;
}

}  // namespace brigade::train
