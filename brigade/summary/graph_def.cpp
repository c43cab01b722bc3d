#include "brigade/summary/graph_def.h"

#include <limits>
#include <set>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/summary/proto/graph.pb.h"
#include "brigade/summary/proto/run_metadata.pb.h"

namespace brigade::summary {
namespace {

constexpr const char* kOutputShapes = "_output_shapes";  // the attribute that TensorBoard reads
constexpr int kGraphVersion = 22;

/// The node's name in "^name", "name:1" and "name".
std::string_view node_of(std::string_view input) {
  if (input.starts_with('^')) return input.substr(1);
  return input.substr(0, input.rfind(':'));
}

void check_text(const GraphNode& node) {
  base::check_utf8(node.name, "the node's name \"", node.name, "\"");
  const auto check = [&](std::string_view text) {
    base::check_utf8(text, "a text of node \"", node.name, "\"");
  };
  check(node.op);
  check(node.device);
  for (const auto& [name, attribute] : node.attributes) check(name);
}

void check_graph(std::span<const GraphNode> nodes) {
  std::set<std::string_view> names;
  for (const GraphNode& node : nodes) {
    check_argument(!node.name.empty(), "a node of a graph has no name; give every node one");
    check_argument(names.insert(node.name).second, "the graph has two nodes named \"", node.name,
                   "\"; rename one");
    check_text(node);
  }
  for (const GraphNode& node : nodes) {
    for (const std::string& input : node.inputs) {
      check_argument(names.contains(node_of(input)), "node \"", node.name, "\" reads \"", input,
                     "\", but the graph has no such node");
    }
  }
}

void write_shape(proto::TensorShapeProto& message, const Shape& shape) {
  for (const std::int64_t size : shape) message.add_dim()->set_size(size);
}

Shape read_shape(const proto::TensorShapeProto& message) {
  Shape shape;
  for (const auto& dim : message.dim()) shape.push_back(dim.size());
  return shape;
}

void write_attribute(proto::AttrValue& message, const std::string& value) {
  message.set_s(value);
}
void write_attribute(proto::AttrValue& message, std::int64_t value) {
  message.set_i(value);
}
void write_attribute(proto::AttrValue& message, double value) {
  message.set_f(static_cast<float>(value));
}
void write_attribute(proto::AttrValue& message, bool value) {
  message.set_b(value);
}
void write_attribute(proto::AttrValue& message, const Shape& value) {
  write_shape(*message.mutable_shape(), value);
}

void write_node(proto::NodeDef& message, const GraphNode& node) {
  message.set_name(node.name);
  message.set_op(node.op);
  message.set_device(node.device);
  for (const std::string& input : node.inputs) message.add_input(input);
  for (const auto& [name, attribute] : node.attributes) {
    proto::AttrValue& target = (*message.mutable_attr())[name];
    std::visit([&target](const auto& value) { write_attribute(target, value); }, attribute);
  }
  if (node.output_shapes.empty()) return;
  proto::AttrValue::ListValue& shapes = *(*message.mutable_attr())[kOutputShapes].mutable_list();
  for (const Shape& shape : node.output_shapes) write_shape(*shapes.add_shape(), shape);
}

void read_attribute(GraphNode& node, const std::string& name, const proto::AttrValue& value) {
  switch (value.value_case()) {
    case proto::AttrValue::kS:
      node.attributes[name] = value.s();
      return;
    case proto::AttrValue::kI:
      node.attributes[name] = std::int64_t{value.i()};
      return;
    case proto::AttrValue::kF:
      node.attributes[name] = static_cast<double>(value.f());
      return;
    case proto::AttrValue::kB:
      node.attributes[name] = value.b();
      return;
    case proto::AttrValue::kShape:
      node.attributes[name] = read_shape(value.shape());
      return;
    default:
      return;
  }
}

GraphNode read_node(const proto::NodeDef& message) {
  GraphNode node{.name = message.name(),
                 .op = message.op(),
                 .device = message.device(),
                 .inputs = {message.input().begin(), message.input().end()},
                 .attributes = {},
                 .output_shapes = {}};
  for (const auto& [name, value] : message.attr()) {
    if (name != kOutputShapes) read_attribute(node, name, value);
  }
  const auto shapes = message.attr().find(kOutputShapes);
  if (shapes == message.attr().end()) return node;
  for (const auto& shape : shapes->second.list().shape()) {
    node.output_shapes.push_back(read_shape(shape));
  }
  return node;
}

void check_timing(const NodeTiming& timing) {
  base::check_utf8(timing.node, "the node's name \"", timing.node, "\"");
  base::check_utf8(timing.device, "the device of node \"", timing.node, "\"");
  check_argument(timing.duration.count() >= 0, "node \"", timing.node, "\" took ",
                 timing.duration.count(), " microseconds; a duration is 0 or more");
}

void write_timing(proto::NodeExecStats& message, const NodeTiming& timing) {
  message.set_node_name(timing.node);
  message.set_all_start_micros(timing.begin.count());
  message.set_op_end_rel_micros(timing.duration.count());
  message.set_all_end_rel_micros(timing.duration.count());
  message.set_thread_id(timing.thread);
}

}  // namespace

std::string encode_graph(std::span<const GraphNode> nodes) {
  check_graph(nodes);
  proto::GraphDef message;
  for (const GraphNode& node : nodes) write_node(*message.add_node(), node);
  message.mutable_versions()->set_producer(kGraphVersion);
  return message.SerializeAsString();
}

std::vector<GraphNode> decode_graph(std::string_view bytes) {
  proto::GraphDef message;
  if (bytes.size() > std::numeric_limits<std::int32_t>::max() ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error(ErrorCode::kDataLoss, bytes.size(), " bytes that are not a graph");
  }
  std::vector<GraphNode> nodes;
  for (const proto::NodeDef& node : message.node()) nodes.push_back(read_node(node));
  return nodes;
}

std::string encode_run_metadata(std::span<const NodeTiming> timings) {
  std::map<std::string, proto::DeviceStepStats> devices;
  for (const NodeTiming& timing : timings) {
    check_timing(timing);
    write_timing(*devices[timing.device].add_node_stats(), timing);
  }
  proto::RunMetadata message;
  for (auto& [name, stats] : devices) {
    stats.set_device(name);
    message.mutable_step_stats()->add_dev_stats()->Swap(&stats);
  }
  return message.SerializeAsString();
}

}  // namespace brigade::summary
