#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/variables/variable_options.h"

namespace brigade::variables {

class Graph;

/// A name scope that is open during the lifetime of this object. It prefixes the names of losses,
/// updates, end points and entries of the placement log. It does not affect `get_variable`.
///
/// Thread-safety: one thread, that of the graph.
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

/// Whether `get_variable` creates or reuses a name.
enum class Reuse {
  kInherit,  ///< as the enclosing scope (TensorFlow: None)
  kNo,       ///< creates, and refuses an existing name: the default of a root scope. For
        ///< `variable_scope` it equals kInherit, like False in TensorFlow: a scope opened by name
        ///< takes the outer scope's value, a captured one keeps its own, even inside a scope that
        ///< reuses
  kYes,   ///< finds, and refuses a missing name
  kAuto,  ///< finds or creates (TensorFlow: tf.AUTO_REUSE)
};

/// Defaults for the variables of a scope and of the scopes inside it. Unset options are the outer
/// scope's.
struct VariableScopeOptions {
  /// Whether names are created, found, or both.
  Reuse reuse = Reuse::kInherit;
  /// Gives the first values of variables without their own initializer.
  Initializer initializer = {};
  /// Of variables without their own.
  Regularizer regularizer = {};
  /// Divides the variables of `get_partitioned_variable`.
  Partitioner partitioner = {};
  /// The device on which reads keep a copy of the variable. TensorFlow: caching_device.
  std::optional<std::string> caching_device = std::nullopt;
  /// Of variables without their own dtype; float32 if no scope sets it.
  std::optional<at::ScalarType> dtype = std::nullopt;
  /// Called before the outer scopes' getters; see CustomGetter.
  CustomGetter custom_getter = {};
  /// For a scope without a name: `default_name`, made unique among the scopes opened here by adding
  /// `_1`, `_2` ...; counting restarts when the enclosing scope is opened again, so a second tower
  /// finds the first one's layers.
  std::string default_name = {};
  /// Whether entering a captured scope opens a name scope too.
  enum class NameScopes { kOpen, kLeave } name_scopes = NameScopes::kOpen;
};

/// A variable scope as a value: its name, whether it reuses, its defaults. Copies are the same
/// scope, so `reuse_variables` on one is seen by all.
///
/// Thread-safety: one thread.
class VariableScope {
 public:
  VariableScope();

  /// Without a trailing slash; empty for the root.
  const std::string& name() const;
  /// `name` prefixed with this scope's name, as `get_variable` names a variable.
  std::string full_name(const std::string& name) const;
  /// kNo, kYes or kAuto.
  Reuse reuse() const;
  /// From now on names are reused, not created: in this scope while it is open, and in scopes
  /// opened inside it later; not when a scope of this name is opened again.
  void reuse_variables() const;
  /// The name scope that was opened with it, with a trailing slash.
  const std::string& original_name_scope() const;

  /// The effective defaults, including those of outer scopes; `reuse` and `default_name` are not
  /// set.
  const VariableScopeOptions& defaults() const;

 private:
  friend class OpenVariableScope;
  friend class Graph;
  struct State;
  static VariableScope root(Reuse reuse);
  /// A separate scope that is equal to this one, and reuses.
  VariableScope reusing() const;
  explicit VariableScope(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// A variable scope that is open during the lifetime of this object. Made by `variable_scope`.
///
/// Thread-safety: one thread, that of the graph.
class [[nodiscard]] OpenVariableScope {
 public:
  OpenVariableScope(Graph& graph, std::optional<std::string> name, VariableScopeOptions options);
  OpenVariableScope(Graph& graph, const VariableScope& captured, VariableScopeOptions options);
  ~OpenVariableScope();
  OpenVariableScope(const OpenVariableScope&) = delete;
  OpenVariableScope& operator=(const OpenVariableScope&) = delete;

  const VariableScope& scope() const { return scope_; }
  const VariableScope* operator->() const { return &scope_; }

 private:
  void open_name_scope(const std::string& name);
  void enter(std::shared_ptr<VariableScope::State> state);
  Graph& graph_;
  VariableScope scope_;
  VariableScope outer_;
  std::map<std::string, std::int64_t> counts_before_;  // of a captured scope's entry
  bool by_name_ = false;
  std::optional<NameScope> names_;
};

/// Opens a scope in the current graph: while the result is alive, variable names get the prefix
/// `name + "/"`. TensorFlow: tf.variable_scope. Throws kInvalidArgument if there is neither a name
/// nor a default name, or `reuse` kYes or kAuto without a name; kFailedPrecondition without a
/// graph.
OpenVariableScope variable_scope(const std::string& name, VariableScopeOptions options = {});
OpenVariableScope variable_scope(const char* name, VariableScopeOptions options = {});
/// Without a name: `options.default_name`, made unique. An explicit name takes precedence.
OpenVariableScope variable_scope(const std::optional<std::string>& name,
                                 VariableScopeOptions options);
/// Re-enters a captured scope, whatever scope is open now: the prefix is the captured scope's, and
/// so is reuse unless `options` sets it.
OpenVariableScope variable_scope(const VariableScope& captured, VariableScopeOptions options = {});

/// The open scope of the current graph.
VariableScope get_variable_scope();

}  // namespace brigade::variables
