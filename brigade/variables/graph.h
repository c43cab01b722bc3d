#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
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

/// Copies of variables' components on other devices, so that a component is copied once even if
/// many layers read it. A copy is made again when the component has changed, or when gradients are
/// recorded that the copy does not record.
///
/// Thread-safety: one thread.
class ValueCache {
 public:
  /// `component` itself if it is on `device`, else its copy there; differentiable.
  at::Tensor get(const at::Tensor& component, c10::Device device);

 private:
  struct Copy {
    at::Tensor original;  // keeps the address, which is the key, from being reused
    at::Tensor value;
    std::int64_t version = 0;
  };
  std::map<std::pair<const void*, std::pair<c10::DeviceType, c10::DeviceIndex>>, Copy> copies_;
};

/// A tensor of a pass through a model, or an update, with the name scope in which it was created.
struct GraphTensor {
  std::string name;
  at::Tensor value;
};
/// An update that a pass has created, such as that of a moving average, and its name.
struct UpdateOp {
  std::string name;
  std::function<void()> run;
};

class Graph;

/// A place in a pass through a model: the open scopes, the names used so far, the copies on other
/// devices. From it a part of the pass can be computed a second time (`layers::recompute`), on any
/// thread, with the names and variables of the first time.
///
/// Thread-safety: immutable.
class GraphSnapshot {
 public:
  explicit GraphSnapshot(const Graph& graph);
  /// Whether the graph that it was taken of still exists.
  bool graph_exists() const { return !lifetime_.expired(); }

 private:
  friend class Graph;
  std::weak_ptr<const void> lifetime_;
  std::shared_ptr<VariableStore> own_store_;
  VariableStore& store_;
  std::shared_ptr<device::Placer> placer_;
  std::string name_scope_;
  std::map<std::string, std::int64_t> names_used_;
  VariableScope variable_scope_;
  std::map<std::string, std::int64_t> variable_scope_counts_;
  ValueCache values_;
};

/// How many tensors a graph has collected: its losses, and of each collection.
struct CollectedCounts {
  std::size_t losses = 0;
  std::map<std::string, std::size_t> collections = {};
};

/// Options of Graph.
struct GraphOptions {
  /// What the root scope does with existing names: kYes for every pass after the first.
  Reuse reuse = Reuse::kInherit;
  /// Places variables and layers; null: the graph's own placer with default options, created on
  /// first use.
  std::shared_ptr<device::Placer> placer = nullptr;
};

/// The state of one pass through a model: the open variable scope and name scope, the default names
/// used so far, the losses, updates and end points created so far, and the values copied to other
/// devices. libtorch executes eagerly, so a graph here collects in each pass what TensorFlow's
/// graph collects once. Variables outlive the pass and are kept in the `VariableStore`.
///
/// Programs that train with a strategy do not create one: each replica gets its own in each
/// `Strategy::run`, with names reused. To create one explicitly:
///
///   Graph graph;
///   auto opened = graph.as_default();
///   auto m = get_variable("M", {{10, 8}});
///
/// Thread-safety: one thread. Replicas have one each over the same store.
class Graph {
 public:
  /// With its own store: one component per variable, on the device chosen by the open device
  /// scopes.
  Graph();
  explicit Graph(GraphOptions options);
  /// Over a store that must outlive it.
  explicit Graph(VariableStore& store, GraphOptions options = {});
  /// Continues where the snapshot was taken, without what was collected until then; names are
  /// reused.
  explicit Graph(const GraphSnapshot& snapshot);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Makes this the graph of the calling thread while the result is alive. TensorFlow:
  /// Graph.as_default.
  [[nodiscard]] base::AmbientScope<Graph> as_default();

  VariableStore& store() const { return store_; }
  /// Places the variables and layers of this pass.
  device::Placer& placer();
  /// Whether placements are logged.
  bool logs_placement() const { return placer_ != nullptr && placer_->logs(); }

  /// The open name scope and `name`, with the suffix `_1`, `_2` ... if needed, so that no operation
  /// of this graph has the same name. Counts the name as used. Case is ignored, as in TensorFlow:
  /// after "foo", "Foo" becomes "Foo_1".
  std::string unique_name(const std::string& name);
  /// The open name scope with a trailing slash; empty at the root.
  const std::string& name_scope() const { return name_scope_; }

  /// The losses and updates of this pass, in the order of creation. `name` is made unique under the
  /// open name scope; a name that ends in a slash is used unchanged, without the slash.
  void add_loss(const std::string& name, at::Tensor loss);
  void add_update_op(const std::string& name, std::function<void()> run);
  /// The same for end points and similar tensors. Their names are under the open name scope (or
  /// complete if they end in a slash) but not made unique.
  void add_to_collection(const std::string& collection, const std::string& name, at::Tensor value);
  /// The tensors whose name begins with `scope`.
  std::vector<at::Tensor> losses(std::string_view scope = "") const;
  std::vector<UpdateOp> update_ops(std::string_view scope = "") const;
  std::vector<GraphTensor> collection(const std::string& collection,
                                      std::string_view scope = "") const;
  /// Runs the updates whose name begins with `scope` and removes them, so that none runs twice.
  void run_update_ops(std::string_view scope = "");
  /// Defers all updates until the optimizer's update of the step, which runs them: a step that
  /// fails and is retried must not run them twice.
  void schedule_update_ops();
  /// Runs the deferred updates and removes them; the optimizer's update calls it.
  void run_scheduled_updates();
  /// Removes the updates that have not been run or deferred.
  void drop_update_ops() { update_ops_.clear(); }
  /// Of an optimizer's update that is left out.
  void drop_scheduled_updates() { scheduled_updates_.clear(); }

  /// For code that replaces what a part of the pass has collected: the counts so far, and the
  /// losses and members of collections that were added since, in an order that depends only on the
  /// calls. Pointers are valid until the next tensor is added.
  CollectedCounts collected_counts() const;
  std::vector<at::Tensor*> collected_since(const CollectedCounts& before);

  /// The copies of variables on other devices made by this pass.
  ValueCache& values() { return values_; }

 private:
  friend class GraphSnapshot;
  friend class NameScope;
  friend class OpenVariableScope;
  friend VariableScope get_variable_scope();

  std::string unique_scope_name(const std::string& default_name) const;
  void forget_scopes_inside(const std::string& name);

  const std::shared_ptr<const void> lifetime_ = std::make_shared<char>();
  std::shared_ptr<VariableStore> own_store_;
  VariableStore& store_;
  std::shared_ptr<device::Placer> placer_;
  std::string name_scope_;
  std::map<std::string, std::int64_t> names_used_;  // in lower case
  VariableScope variable_scope_;                    // the open one
  std::map<std::string, std::int64_t>
      variable_scope_counts_;  // the number of times each was opened
  std::vector<GraphTensor> losses_;
  std::vector<UpdateOp> update_ops_;
  std::vector<UpdateOp> scheduled_updates_;
  std::map<std::string, std::vector<GraphTensor>> collections_;
  ValueCache values_;
};

inline constexpr base::AmbientSlot<Graph> kGraphSlot{base::AmbientIndex::kVariableScope};

/// The calling thread's graph, or null.
Graph* current_graph();

/// The same. If there is none, throws kFailedPrecondition, naming `what` and how to open a graph.
Graph& require_graph(std::string_view what);

}  // namespace brigade::variables
