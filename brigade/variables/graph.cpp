#include "brigade/variables/graph.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::variables {

namespace {

/// "cuda" and "cuda:0" are the same device only if that is the current one; components and
/// placements always have an index.
bool lives_on(const at::Tensor& tensor, c10::Device device) {
  if (device.is_cpu()) return tensor.is_cpu();
  return tensor.device() == device;
}

}  // namespace

at::Tensor ValueCache::get(const at::Tensor& component, c10::Device device) {
  if (lives_on(component, device)) return component;
  Copy& copy = copies_[{component.unsafeGetTensorImpl(), {device.type(), device.index()}}];
  const bool needs_gradient = c10::GradMode::is_enabled() && component.requires_grad();
  const bool is_current = copy.value.defined() && copy.version == component._version() &&
                          (!needs_gradient || copy.value.requires_grad());
  if (!is_current) copy = {component, component.to(device), component._version()};
  return copy.value;
}

namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// "a/b" for "a/b/", which TensorFlow treats as a complete name.
std::optional<std::string> whole_name(const std::string& name) {
  if (name.empty() || name.back() != '/') return std::nullopt;
  return name.substr(0, name.size() - 1);
}

}  // namespace

Graph::Graph() : Graph(GraphOptions{}) {}

Graph::Graph(GraphOptions options)
    : own_store_(std::make_shared<VariableStore>(
          VariableStoreOptions{.placement = StorePlacement::kDeviceScopes})),
      store_(*own_store_),
      placer_(std::move(options.placer)),
      variable_scope_(VariableScope::root(options.reuse)) {}

Graph::Graph(VariableStore& store, GraphOptions options)
    : store_(store),
      placer_(std::move(options.placer)),
      variable_scope_(VariableScope::root(options.reuse)) {}

GraphSnapshot::GraphSnapshot(const Graph& graph)
    : lifetime_(graph.lifetime_),
      own_store_(graph.own_store_),
      store_(graph.store_),
      placer_(graph.placer_),
      name_scope_(graph.name_scope_),
      names_used_(graph.names_used_),
      variable_scope_(graph.variable_scope_),
      variable_scope_counts_(graph.variable_scope_counts_),
      values_(graph.values_) {}

Graph::Graph(const GraphSnapshot& snapshot)
    : own_store_(snapshot.own_store_),
      store_(snapshot.store_),
      placer_(snapshot.placer_),
      name_scope_(snapshot.name_scope_),
      names_used_(snapshot.names_used_),
      variable_scope_(snapshot.variable_scope_.reusing()),
      variable_scope_counts_(snapshot.variable_scope_counts_),
      values_(snapshot.values_) {}

Graph::~Graph() = default;

base::AmbientScope<Graph> Graph::as_default() {
  return {kGraphSlot, this};
}

device::Placer& Graph::placer() {
  if (!placer_) placer_ = std::make_shared<device::Placer>();
  return *placer_;
}

std::string Graph::unique_name(const std::string& name) {
  const std::string full = name_scope_ + name;
  const std::string key = lower(full);
  std::int64_t count = names_used_[key]++;
  if (count == 0) return full;
  std::string candidate;
  do {
    candidate = base::str_cat(key, "_", count++);
  } while (names_used_.contains(candidate));
  names_used_[candidate] = 1;
  return base::str_cat(full, "_", count - 1);
}

std::string Graph::unique_scope_name(const std::string& default_name) const {
  const std::string full = variable_scope_.full_name(default_name);
  const auto is_open_again = [&](const std::string& name) {
    const auto found = variable_scope_counts_.find(name);
    return found != variable_scope_counts_.end() && found->second > 0;
  };
  if (!is_open_again(full)) return default_name;
  std::int64_t i = 1;
  while (is_open_again(base::str_cat(full, "_", i))) ++i;
  return base::str_cat(default_name, "_", i);
}

void Graph::forget_scopes_inside(const std::string& name) {
  const std::string prefix = name + "/";
  auto it = variable_scope_counts_.lower_bound(prefix);
  while (it != variable_scope_counts_.end() && it->first.starts_with(prefix)) {
    it = variable_scope_counts_.erase(it);
  }
}

void Graph::add_loss(const std::string& name, at::Tensor loss) {
  const auto whole = whole_name(name);
  losses_.push_back({whole ? *whole : unique_name(name), std::move(loss)});
}

void Graph::add_update_op(const std::string& name, std::function<void()> run) {
  const auto whole = whole_name(name);
  update_ops_.push_back({whole ? *whole : unique_name(name), std::move(run)});
}

void Graph::add_to_collection(const std::string& collection, const std::string& name,
                              at::Tensor value) {
  const auto whole = whole_name(name);
  collections_[collection].push_back({whole ? *whole : name_scope_ + name, std::move(value)});
}

std::vector<at::Tensor> Graph::losses(std::string_view scope) const {
  std::vector<at::Tensor> found;
  for (const GraphTensor& loss : losses_) {
    if (loss.name.starts_with(scope)) found.push_back(loss.value);
  }
  return found;
}

std::vector<UpdateOp> Graph::update_ops(std::string_view scope) const {
  std::vector<UpdateOp> found;
  for (const UpdateOp& op : update_ops_) {
    if (op.name.starts_with(scope)) found.push_back(op);
  }
  return found;
}

std::vector<GraphTensor> Graph::collection(const std::string& collection,
                                           std::string_view scope) const {
  std::vector<GraphTensor> found;
  const auto all = collections_.find(collection);
  if (all == collections_.end()) return found;
  for (const GraphTensor& member : all->second) {
    if (member.name.starts_with(scope)) found.push_back(member);
  }
  return found;
}

CollectedCounts Graph::collected_counts() const {
  CollectedCounts counts{.losses = losses_.size()};
  for (const auto& [name, members] : collections_) counts.collections[name] = members.size();
  return counts;
}

std::vector<at::Tensor*> Graph::collected_since(const CollectedCounts& before) {
  std::vector<at::Tensor*> added;
  for (std::size_t i = before.losses; i < losses_.size(); ++i) added.push_back(&losses_[i].value);
  for (auto& [name, members] : collections_) {
    const auto known = before.collections.find(name);
    std::size_t i = known == before.collections.end() ? 0 : known->second;
    for (; i < members.size(); ++i) added.push_back(&members[i].value);
  }
  return added;
}

void Graph::run_update_ops(std::string_view scope) {
  const std::vector<UpdateOp> due = update_ops(scope);
  // Removed first: an update that throws must not run again, and updates added meanwhile must not
  // be lost.
  std::erase_if(update_ops_, [&](const UpdateOp& op) { return op.name.starts_with(scope); });
  for (const UpdateOp& op : due) op.run();
}

void Graph::schedule_update_ops() {
  std::ranges::move(update_ops_, std::back_inserter(scheduled_updates_));
  update_ops_.clear();
}

void Graph::run_scheduled_updates() {
  for (const UpdateOp& op : std::exchange(scheduled_updates_, {})) op.run();
}

Graph* current_graph() {
  return kGraphSlot.get();
}

Graph& require_graph(std::string_view what) {
  Graph* graph = current_graph();
  if (graph == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, what,
                " needs an open graph: call it inside Strategy::create or Strategy::run, or open "
                "one (Graph graph; auto opened = graph.as_default();).");
  }
  return *graph;
}

}  // namespace brigade::variables
