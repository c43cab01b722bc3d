#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/ambient.h"
#include "brigade/device/placement.h"
#include "brigade/variables/variable_scope.h"
#include "brigade/variables/variable_store.h"

namespace brigade::variables {

/// A tensor or action of a pass through a model, under the name scope that it was made in.
struct NamedTensor {
  std::string name;
  at::Tensor value;
};
struct UpdateOp {
  std::string name;
  std::function<void()> run;
};

struct GraphOptions {
  /// What the root scope does with names that exist: kYes for every pass after the first.
  Reuse reuse = Reuse::kInherit;
  /// Where things go; null: a placer with default options of the graph's own.
  std::shared_ptr<device::Placer> placer = nullptr;
};

/// The names of one pass through a model: which variable scope and name scope are open, which
/// default names were given out, which losses, updates and end points the pass has made so far.
/// libtorch defines by running, so what TensorFlow's graph collects once, a graph here collects in
/// each pass, and the variables, which outlive the pass, are in the `VariableStore`.
///
/// In programs that train by a strategy nobody makes one: each replica has its own in each
/// `Strategy::run`, with names reused. By hand:
///
///   Graph graph;
///   auto opened = graph.as_default();
///   auto m = get_variable("M", {{10, 8}});
///
/// Thread-safety: one thread. Replicas have one each over the same store.
class Graph {
 public:
  /// With a store of its own: one component a variable, on the device that the open device scopes
  /// ask for.
  Graph();
  explicit Graph(GraphOptions options);
  /// Over a store that must outlive it.
  explicit Graph(VariableStore& store, GraphOptions options = {});
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Makes this the graph of the calling thread while the result lives. TensorFlow:
  /// Graph.as_default.
  [[nodiscard]] base::AmbientScope<Graph> as_default();

  VariableStore& store() const { return store_; }
  device::Placer& placer() const { return *placer_; }

  /// `name`, or with `_1`, `_2` ... behind it, so that no operation of this graph has the same.
  /// Counts the name as used. Case is ignored, as in TensorFlow.
  std::string unique_name(const std::string& name);
  /// The open name scope with a slash behind it; empty at the root.
  const std::string& name_scope() const { return name_scope_; }

  /// The losses, updates and end points of this pass, in the order of their making, under the open
  /// name scope.
  void add_loss(const std::string& name, at::Tensor loss);
  void add_update_op(const std::string& name, std::function<void()> run);
  void add_to_collection(const std::string& collection, const std::string& name, at::Tensor value);
  /// Those whose name begins with `scope`.
  std::vector<at::Tensor> losses(std::string_view scope = "") const;
  std::vector<UpdateOp> update_ops(std::string_view scope = "") const;
  std::vector<NamedTensor> collection(const std::string& collection,
                                      std::string_view scope = "") const;
  /// Runs the updates whose name begins with `scope` and forgets them, so that none runs twice.
  void run_update_ops(std::string_view scope = "");
  void drop_update_ops() { update_ops_.clear(); }

 private:
  friend class NameScope;
  friend class OpenVariableScope;
  friend VariableScope get_variable_scope();

  std::unique_ptr<VariableStore> own_store_;
  VariableStore& store_;
  std::shared_ptr<device::Placer> placer_;
  std::string name_scope_;
  std::map<std::string, std::int64_t> names_used_;
  VariableScope variable_scope_;                             // the open one
  std::map<std::string, std::int64_t> variable_scope_counts_;  // how often each was opened
  std::vector<NamedTensor> losses_;
  std::vector<UpdateOp> update_ops_;
  std::map<std::string, std::vector<NamedTensor>> collections_;
};

inline constexpr base::AmbientSlot<Graph> kGraphSlot{base::AmbientIndex::kVariableScope};

/// The calling thread's graph, or null.
Graph* current_graph();

/// The same. Throws kFailedPrecondition, naming `what` and how to open one, if there is none.
Graph& require_graph(std::string_view what);

}  // namespace brigade::variables
