#include "brigade/variables/variable_scope.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/variables/graph.h"

namespace brigade::variables {

struct VariableScope::State {
  std::string name;
  std::string original_name_scope;
  Reuse reuse = Reuse::kNo;
  std::shared_ptr<const VariableScopeOptions> defaults;  // shared until a scope changes a default
};

namespace {

CustomGetter in_front_of(CustomGetter inner, CustomGetter outer) {
  if (!inner) return outer;
  if (!outer) return inner;
  return [inner = std::move(inner), outer = std::move(outer)](const VariableGetter& getter,
                                                              const GetVariableRequest& request) {
    return inner([&](const GetVariableRequest& next) { return outer(getter, next); }, request);
  };
}

bool sets_defaults(const VariableScopeOptions& options) {
  return options.initializer || options.regularizer || options.partitioner ||
         options.caching_device || options.dtype || options.custom_getter;
}

std::shared_ptr<const VariableScopeOptions> merge_defaults(
    const std::shared_ptr<const VariableScopeOptions>& outer, VariableScopeOptions options) {
  if (!sets_defaults(options)) return outer;
  VariableScopeOptions merged = *outer;
  if (options.initializer) merged.initializer = std::move(options.initializer);
  if (options.regularizer) merged.regularizer = std::move(options.regularizer);
  if (options.partitioner) merged.partitioner = std::move(options.partitioner);
  if (options.caching_device) merged.caching_device = std::move(options.caching_device);
  if (options.dtype) merged.dtype = options.dtype;
  merged.custom_getter = in_front_of(std::move(options.custom_getter), merged.custom_getter);
  return std::make_shared<const VariableScopeOptions>(std::move(merged));
}

Reuse inherit(Reuse wanted, Reuse inherited) {
  return wanted == Reuse::kYes || wanted == Reuse::kAuto ? wanted : inherited;
}

std::string last_component(const std::string& name) {
  return name.substr(name.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace

VariableScope::VariableScope() : state_(std::make_shared<State>()) {
  state_->defaults = std::make_shared<const VariableScopeOptions>();
}
const std::string& VariableScope::name() const {
  return state_->name;
}
std::string VariableScope::full_name(const std::string& name) const {
  return state_->name.empty() ? name : base::str_cat(state_->name, "/", name);
}
Reuse VariableScope::reuse() const {
  return state_->reuse;
}
void VariableScope::reuse_variables() const {
  state_->reuse = Reuse::kYes;
}
const std::string& VariableScope::original_name_scope() const {
  return state_->original_name_scope;
}
const VariableScopeOptions& VariableScope::defaults() const {
  return *state_->defaults;
}

VariableScope VariableScope::root(Reuse reuse) {
  VariableScope scope;
  scope.state_->reuse = inherit(reuse, Reuse::kNo);
  return scope;
}

VariableScope VariableScope::reusing() const {
  VariableScope copy(std::make_shared<State>(*state_));
  copy.reuse_variables();
  return copy;
}

OpenVariableScope::OpenVariableScope(Graph& graph, std::optional<std::string> name,
                                     VariableScopeOptions options)
    : graph_(graph), outer_(graph.variable_scope_), by_name_(true) {
  check_argument(name || !options.default_name.empty(),
                 "variable_scope needs a name, a captured scope, or a default name.");
  check_argument(name || (options.reuse != Reuse::kYes && options.reuse != Reuse::kAuto),
                 "A variable scope without a name (default name '", options.default_name,
                 "') cannot reuse: give it a name, or reuse in the scope around it.");
  if (options.name_scopes == VariableScopeOptions::NameScopes::kOpen) {
    open_name_scope(name ? *name : options.default_name);
  }
  auto state = std::make_shared<VariableScope::State>();
  state->name = outer_.full_name(name ? *name : graph.unique_scope_name(options.default_name));
  state->original_name_scope = graph.name_scope();
  state->reuse = inherit(options.reuse, outer_.reuse());
  state->defaults = merge_defaults(outer_.state_->defaults, std::move(options));
  enter(std::move(state));
}

OpenVariableScope::OpenVariableScope(Graph& graph, const VariableScope& captured,
                                     VariableScopeOptions options)
    : graph_(graph), outer_(graph.variable_scope_) {
  if (options.name_scopes == VariableScopeOptions::NameScopes::kOpen) {
    open_name_scope(last_component(captured.name()));
  }
  auto state = std::make_shared<VariableScope::State>(*captured.state_);
  state->reuse = inherit(options.reuse, captured.reuse());
  state->defaults = merge_defaults(captured.state_->defaults, std::move(options));
  enter(std::move(state));
  counts_before_ = graph.variable_scope_counts_;
}

void OpenVariableScope::open_name_scope(const std::string& name) {
  if (!name.empty()) names_.emplace(graph_, name);
}

void OpenVariableScope::enter(std::shared_ptr<VariableScope::State> state) {
  scope_ = VariableScope(std::move(state));
  ++graph_.variable_scope_counts_[scope_.name()];
  graph_.variable_scope_ = scope_;
}

OpenVariableScope::~OpenVariableScope() {
  // As in TensorFlow: thus the second opening of a scope numbers its layers like the first one.
  if (by_name_) {
    graph_.forget_scopes_inside(scope_.name());
  } else {
    graph_.variable_scope_counts_ = std::move(counts_before_);
  }
  graph_.variable_scope_ = outer_;
}

OpenVariableScope variable_scope(const std::string& name, VariableScopeOptions options) {
  return OpenVariableScope(require_graph("variable_scope"), std::optional(name),
                           std::move(options));
}

OpenVariableScope variable_scope(const char* name, VariableScopeOptions options) {
  return variable_scope(std::string(name), std::move(options));
}

OpenVariableScope variable_scope(const std::optional<std::string>& name,
                                 VariableScopeOptions options) {
  return OpenVariableScope(require_graph("variable_scope"), name, std::move(options));
}

OpenVariableScope variable_scope(const VariableScope& captured, VariableScopeOptions options) {
  return OpenVariableScope(require_graph("variable_scope"), captured, std::move(options));
}

VariableScope get_variable_scope() {
  return require_graph("get_variable_scope").variable_scope_;
}

namespace {

/// TensorFlow's rule: at the root the first character is a letter, digit or point.
bool is_scope_name(const std::string& name, bool is_root) {
  constexpr std::string_view kOthers = "_.\\/>-";
  const auto is_allowed = [&](unsigned char c) {
    return std::isalnum(c) != 0 || kOthers.find(static_cast<char>(c)) != kOthers.npos;
  };
  if (!std::all_of(name.begin(), name.end(), is_allowed)) return false;
  return !is_root || std::isalnum(static_cast<unsigned char>(name.front())) != 0 ||
         name.front() == '.';
}

}  // namespace

NameScope::NameScope(Graph& graph, const std::string& name)
    : graph_(graph), outer_(graph.name_scope_) {
  check_argument(name.empty() || is_scope_name(name, outer_.empty()), "'", name,
                 "' is not a valid name scope: use letters, digits and any of _ . / -, and begin "
                 "one at the root with a letter or digit.");
  if (!name.empty()) name_ = name.back() == '/' ? name : graph.unique_name(name) + "/";
  graph_.name_scope_ = name_;
}

NameScope::~NameScope() {
  graph_.name_scope_ = outer_;
}

NameScope name_scope(const std::string& name) {
  return NameScope(require_graph("name_scope"), name);
}

}  // namespace brigade::variables
