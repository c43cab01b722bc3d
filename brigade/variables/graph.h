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
#include "brigade/variables/value_cache.h"
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
  /// Where things go; null: a placer with default options of the graph's own, made when first
  /// needed.
  std::shared_ptr<device::Placer> placer = nullptr;
};

/// The names of one pass through a model: which variable scope and name scope are open, which
/// default names were given out, which losses, updates and end points the pass has made so far, and
/// which values it has copied to other devices.
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
  device::Placer& placer();
  /// Whether things that are placed get a line in the placement log.
  bool logs_placement() const { return placer_ != nullptr && placer_->logs(); }

  /// The open name scope and `name`, as it is or with `_1`, `_2` ... behind it, so that no
  /// operation of this graph has the same name. Counts the name as used. Case is ignored, as in
  /// TensorFlow: after "foo", "Foo" becomes "Foo_1".
  std::string unique_name(const std::string& name);
  /// The open name scope with a slash behind it; empty at the root.
  const std::string& name_scope() const { return name_scope_; }

  /// The losses and updates of this pass, in the order of their making. `name` is made unique under
  /// the open name scope; one that ends in a slash is taken as it is, without the slash.
  void add_loss(const std::string& name, at::Tensor loss);
  void add_update_op(const std::string& name, std::function<void()> run);
  /// The same for end points and the like, whose names are under the open name scope (or whole, by
  /// a slash at the end) but not made unique.
  void add_to_collection(const std::string& collection, const std::string& name, at::Tensor value);
  /// Those whose name begins with `scope`.
  std::vector<at::Tensor> losses(std::string_view scope = "") const;
  std::vector<UpdateOp> update_ops(std::string_view scope = "") const;
  std::vector<NamedTensor> collection(const std::string& collection,
                                      std::string_view scope = "") const;
  /// Runs the updates whose name begins with `scope` and forgets them, so that none runs twice.
  void run_update_ops(std::string_view scope = "");
  /// Puts all updates off until the step's update is made, and that runs them: one that fails and
  /// is made again must not run them twice.
  void schedule_update_ops();
  void run_scheduled_updates();
  void drop_update_ops() { update_ops_.clear(); }

  /// The copies of variables on other devices that this pass has made.
  ValueCache& values() { return values_; }

 private:
  friend class NameScope;
  friend class OpenVariableScope;
  friend VariableScope get_variable_scope();

  std::string unique_scope_name(const std::string& default_name) const;
  void forget_scopes_inside(const std::string& name);

  std::unique_ptr<VariableStore> own_store_;
  VariableStore& store_;
  std::shared_ptr<device::Placer> placer_;
  std::string name_scope_;
  std::map<std::string, std::int64_t> names_used_;             // in lower case
  VariableScope variable_scope_;                               // the open one
  std::map<std::string, std::int64_t> variable_scope_counts_;  // how often each was opened
  std::vector<NamedTensor> losses_;
  std::vector<UpdateOp> update_ops_;
  std::vector<UpdateOp> scheduled_updates_;
  std::map<std::string, std::vector<NamedTensor>> collections_;
  ValueCache values_;
};

inline constexpr base::AmbientSlot<Graph> kGraphSlot{base::AmbientIndex::kVariableScope};

/// The calling thread's graph, or null.
Graph* current_graph();

/// The same. Throws kFailedPrecondition, naming `what` and how to open one, if there is none.
Graph& require_graph(std::string_view what);

}  // namespace brigade::variables
