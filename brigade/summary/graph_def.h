#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace brigade::summary {

/// The dimensions of a tensor; -1 is an unknown dimension.
using Shape = std::vector<std::int64_t>;

/// An attribute that TensorBoard shows for a node.
using Attribute = std::variant<std::string, std::int64_t, double, bool, Shape>;

/// A node of a model's graph: a layer, a variable, an operation. TensorBoard groups nodes by the
/// parts of their names ("conv1/weights" is in "conv1") and colors them by device.
struct GraphNode {
  std::string name;
  std::string op;      ///< The operation: "Conv2D", "VariableV2".
  std::string device;  ///< Its device: "/job:worker/task:0/device:GPU:0"; empty: not placed.
  /// The names of the nodes whose outputs it reads: "conv1", "split:1" for the second output;
  /// "^init" is a control dependency.
  std::vector<std::string> inputs;
  std::map<std::string, Attribute> attributes;
  std::vector<Shape> output_shapes;  ///< One per output; empty: not known.

  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};

/// The graph as TensorFlow's protobuf message `GraphDef`. Throws kInvalidArgument, naming the node,
/// if a name is empty or duplicate, an input does not name a node, or text is not UTF-8.
std::string encode_graph(std::span<const GraphNode> nodes);

/// Decodes such a message; attributes of other kinds are left out. Throws kDataLoss if the bytes
/// are not such a message.
std::vector<GraphNode> decode_graph(std::string_view bytes);

/// When one operation of a step ran.
struct NodeTiming {
  std::string node;                    ///< The name of the node in the graph.
  std::string device;                  ///< Where it ran: "/job:worker/task:0/device:GPU:0".
  std::chrono::microseconds begin{0};  ///< Since 1970, or since any moment common to all timings.
  std::chrono::microseconds duration{0};
  std::uint32_t thread = 0;
};

/// The timings of one step as TensorFlow's protobuf message `RunMetadata`, from which TensorBoard
/// colors the graph by time. Devices are sorted by name. Throws kInvalidArgument if a name is not
/// UTF-8 or a duration negative.
std::string encode_run_metadata(std::span<const NodeTiming> timings);

}  // namespace brigade::summary
