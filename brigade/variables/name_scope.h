#pragma once

#include <string>

namespace brigade::variables {

class Graph;

/// A name scope that is open during the lifetime of this object. It prefixes the names of losses,
/// updates, end points and entries of the placement log. It does not affect `get_variable`.
class [[nodiscard]] NameScope {
 public:
  NameScope(Graph& graph, const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

  /// The unique name with a trailing slash: "tower_0/".
  const std::string& name() const { return name_; }

 private:
  Graph& graph_;
  std::string outer_;
  std::string name_;
};

/// Opens `name` inside the open scope of the current graph, made unique by `_1`, `_2` ... A name
/// that ends in a slash is used unchanged, from the root, as in TensorFlow; an empty one is the
/// root. Throws kInvalidArgument for a name that TensorFlow refuses, kFailedPrecondition without a
/// graph.
NameScope name_scope(const std::string& name);

}  // namespace brigade::variables
