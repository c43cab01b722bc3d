#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/variables/name_scope.h"
#include "brigade/variables/variable_options.h"

namespace brigade::variables {

class Graph;

/// What `get_variable` does with a name.
enum class Reuse {
  kInherit,  ///< as the scope outside (TensorFlow: None)
  kNo,    ///< creates, and refuses a name that exists: what a root scope has. To `variable_scope`
          ///< it says as much as kInherit, as False in TensorFlow: one opened by name takes the
          ///< outer scope's, a captured one keeps its own, also inside a scope that reuses
  kYes,   ///< finds, and refuses a name that does not exist
  kAuto,  ///< finds or creates (TensorFlow: tf.AUTO_REUSE)
};

/// Defaults for the variables of a scope and of the scopes inside it. What is left unset is the
/// outer scope's.
struct VariableScopeOptions {
  Reuse reuse = Reuse::kInherit;
  Initializer initializer = {};
  Regularizer regularizer = {};
  Partitioner partitioner = {};
  std::optional<std::string> caching_device = std::nullopt;
  std::optional<at::ScalarType> dtype = std::nullopt;
  /// Stands before the outer scopes' getters; see CustomGetter.
  CustomGetter custom_getter = {};
  /// For a scope without a name: `default_name`, made unique among the scopes opened here by adding
  /// `_1`, `_2` ...; counting starts anew when the enclosing scope is opened again, which is how a
  /// second tower finds the first one's layers.
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

  /// Without a slash at the end; empty for the root.
  const std::string& name() const;
  /// `name` with this scope's before it, as `get_variable` calls a variable.
  std::string full_name(const std::string& name) const;
  /// kNo, kYes or kAuto.
  Reuse reuse() const;
  /// From now on names are found, not made: in this scope as it is open now, and in scopes opened
  /// inside it later; not in the scope of this name that is opened again.
  void reuse_variables() const;
  /// The name scope that was opened with it, with a slash behind it.
  const std::string& original_name_scope() const;

  /// The defaults in force, outer scopes' included; `reuse` and `default_name` are not set.
  const VariableScopeOptions& defaults() const;

 private:
  friend class OpenVariableScope;
  friend class Graph;
  struct State;
  static VariableScope root(Reuse reuse);
  explicit VariableScope(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// A variable scope that is open as long as this lives. Made by `variable_scope`.
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

/// Opens a scope in the current graph: variables made or found while the result lives have
/// `name + "/"` before their names. TensorFlow: tf.variable_scope. Throws kInvalidArgument for
/// neither name nor default name, or `reuse` kYes or kAuto without a name; kFailedPrecondition
/// without a graph.
OpenVariableScope variable_scope(const std::string& name, VariableScopeOptions options = {});
OpenVariableScope variable_scope(const char* name, VariableScopeOptions options = {});
/// Without a name of its own: `options.default_name`, made unique. A name that is given wins.
OpenVariableScope variable_scope(const std::optional<std::string>& name,
                                 VariableScopeOptions options);
/// Re-enters a captured scope, wherever the thread stands now: the prefix is the captured one's,
/// and so is reuse unless `options` says otherwise.
OpenVariableScope variable_scope(const VariableScope& captured, VariableScopeOptions options = {});

/// The open scope of the current graph.
VariableScope get_variable_scope();

}  // namespace brigade::variables
