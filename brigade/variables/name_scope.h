#pragma once

#include <string>

namespace brigade::variables {

class Graph;

/// A name scope that is open as long as this lives: what a pass makes (losses, updates, end points,
/// entries of the placement log) has its name as prefix. `get_variable` takes no notice.
class [[nodiscard]] NameScope {
 public:
  NameScope(Graph& graph, const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

  /// With a slash behind it, as made unique: "tower_0/".
  const std::string& name() const { return name_; }

 private:
  Graph& graph_;
  std::string outer_;
  std::string name_;
};

/// Opens `name` inside the open scope of the current graph, made unique by `_1`, `_2` ... A name
/// that ends in a slash is taken as it is, from the root, as in TensorFlow; an empty one is the
/// root. Throws kInvalidArgument for a name that TensorFlow refuses, kFailedPrecondition without a
/// graph.
NameScope name_scope(const std::string& name);

}  // namespace brigade::variables
