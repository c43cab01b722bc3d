#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace brigade::summary {

/// The dimensions of a tensor; -1 is one that is not known.
using Shape = std::vector<std::int64_t>;

/// What TensorBoard shows beside a node.
using Attribute = std::variant<std::string, std::int64_t, double, bool, Shape>;

/// A node of a model's graph: a layer, a variable, an operation. TensorBoard groups nodes by the
/// parts of their names ("conv1/weights" lies in "conv1") and colors them by device.
struct GraphNode {
  std::string name;
  std::string op;      ///< What it is: "Conv2D", "VariableV2".
  std::string device;  ///< Where it was placed: "/job:worker/task:0/device:GPU:0"; empty: nowhere.
  /// Names of the nodes whose outputs it reads: "conv1", "split:1" for the second output; "^init"
  /// only waits for the node.
  std::vector<std::string> inputs;
  std::map<std::string, Attribute> attributes;
  std::vector<Shape> output_shapes;  ///< One an output; empty: not known.

  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};

/// The graph as TensorFlow's protobuf message `GraphDef`. Throws kInvalidArgument, naming the node,
/// if a name is empty or there twice, an input names no node, or text is not UTF-8.
std::string encode_graph(std::span<const GraphNode> nodes);

/// The nodes of such a message; attributes of other kinds are left out. Throws kDataLoss if the
/// bytes are no message of that kind.
std::vector<GraphNode> decode_graph(std::string_view bytes);

}  // namespace brigade::summary
