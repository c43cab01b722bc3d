#include "brigade/layers/recompute.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "brigade/base/strings.h"
#include "brigade/comm/differentiable.h"
#include "brigade/comm/replica.h"
#include "brigade/layers/forward_state.h"
#include "brigade/variables/variable_watch.h"

namespace brigade::layers {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// Calls `leads_out(edge)` for all edges that `roots` lead to, and follows those for which it is
/// false. It may redirect edges that lead out.
template <class LeadsOut>
void visit_edges(edge_list& roots, const LeadsOut& leads_out) {
  std::vector<Node*> open;
  std::unordered_set<const Node*> seen;
  const auto follow = [&](Edge& edge) {
    if (!edge.is_valid() || leads_out(edge)) return;
    if (seen.insert(edge.function.get()).second) open.push_back(edge.function.get());
  };
  for (Edge& root : roots) follow(root);
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    for (Edge& edge : node->next_edges()) follow(edge);
  }
}

/// Whether the edge's node existed before the sequence number `begin`. Nodes are numbered per
/// thread; leaves have the largest number.
bool is_older(const Edge& edge, std::uint64_t begin) {
  const std::uint64_t number = edge.function->sequence_nr();
  return number < begin || number == std::numeric_limits<std::uint64_t>::max();
}

/// Stands for a node outside of a call in the call's own backward pass, which captures the gradient
/// here. So hooks of a variable run once, when the outer pass has the whole gradient.
class Collector final : public Node {
 public:
  explicit Collector(const Edge& edge) : Node(std::numeric_limits<std::uint64_t>::max()) {
    input_metadata_.emplace_back(edge.function->input_metadata(edge.input_nr));
  }

 protected:
  variable_list apply(variable_list&&) override { return {}; }
};

/// The results of a call and what it collected in the graph, each tensor once.
class CallResults {
 public:
  CallResults(variable_list& results, std::vector<at::Tensor*> collected) {
    for (at::Tensor& result : results) add(result);
    for (at::Tensor* tensor : collected) add(*tensor);
  }
  const variable_list& tensors() const { return tensors_; }
  /// Writes these tensors to where the others came from.
  void replace_by(const variable_list& tensors) const {
    for (std::size_t i = 0; i < origins_.size(); ++i) *origins_[i] = tensors[index_[i]];
  }

 private:
  void add(at::Tensor& tensor) {
    const auto [found, is_new] = known_.emplace(tensor.unsafeGetTensorImpl(), tensors_.size());
    if (is_new) tensors_.push_back(tensor);
    origins_.push_back(&tensor);
    index_.push_back(found->second);
  }

  variable_list tensors_;
  std::vector<at::Tensor*> origins_;
  std::vector<std::size_t> index_;  // [origin]: of its tensor
  std::unordered_map<const at::TensorImpl*, std::size_t> known_;
};

bool is_differentiable(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad();
}

std::string description(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  return base::str_cat(c10::toString(tensor.scalar_type()), tensor.sizes(),
                       is_differentiable(tensor) ? "" : " without a gradient");
}

std::vector<std::string> descriptions(const variable_list& tensors) {
  std::vector<std::string> all;
  for (const at::Tensor& tensor : tensors) all.push_back(description(tensor));
  return all;
}

/// The GPU that they are on, if any.
std::optional<c10::Device> device_of(const variable_list& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.is_cuda()) return tensor.device();
  }
  return std::nullopt;
}

/// Leaves over the same memory, whose graph begins here.
variable_list detached(const variable_list& inputs) {
  variable_list leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.defined() ? input.detach().set_requires_grad(input.requires_grad())
                                     : at::Tensor());
  }
  return leaves;
}

std::vector<std::int64_t> versions_of(const variable_list& tensors) {
  std::vector<std::int64_t> versions;
  for (const at::Tensor& tensor : tensors)
    versions.push_back(tensor.defined() && !tensor.is_inference() ? tensor._version() : 0);
  return versions;
}

void check_unchanged(const std::vector<std::int64_t>& before,
                     const std::vector<std::int64_t>& after) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    check_argument(
        before[i] == after[i], "recompute: the function changes input ", i,
        " in place, so it could not be called with it a second time: let it compute a new tensor.");
  }
}

/// The leaf that an edge leads to; null if it leads to another node.
const at::Tensor* leaf_of(const Edge& edge) {
  const auto* node = dynamic_cast<const torch::autograd::AccumulateGrad*>(edge.function.get());
  return node == nullptr ? nullptr : &node->variable;
}

/// A call of `recompute`, as a node of the forward pass's graph. Its outputs are the gradients of
/// the inputs, then those of the tensors that the function used besides.
class RecomputeBackward final : public Node, public comm::MayBeCollective {
 public:
  RecomputeBackward(TensorFunction function, const variable_list& inputs)
      : function_(std::move(function)) {
    for (const at::Tensor& input : inputs) inputs_.emplace_back(input, /*is_output=*/false);
  }

  /// The first call. `self` is this node.
  variable_list call(const variable_list& inputs, const std::shared_ptr<Node>& self);

  std::string name() const override { return "RecomputeBackward"; }
  bool is_collective() const override { return is_collective_; }
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    inputs_.clear();
    is_released_ = true;
  }

 protected:
  variable_list apply(variable_list&& gradients) override;

 private:
  edge_list captured_edges(const variable_list& results, const variable_list& leaves,
                           std::uint64_t begin) const;
  void keep_versions();
  void check_versions() const;
  void find_collectives(const variable_list& results);
  variable_list unpacked_inputs();
  variable_list call_again(const variable_list& leaves) const;
  edge_list redirected(edge_list& roots, const variable_list& leaves, std::uint64_t begin) const;
  variable_list inner_backward(const variable_list& results, const variable_list& leaves,
                               const variable_list& gradients, std::uint64_t begin) const;

  const TensorFunction function_;
  const ForwardState state_;
  std::vector<SavedVariable> inputs_;
  // Where else the graph of the first call leads out of it. Kept apart from the next edges, which a
  // call around this one redirects.
  edge_list captured_;
  std::vector<std::int64_t> versions_;           // [captured edge]: of the leaf that it leads to
  std::vector<variables::Variable> statistics_;  // that the function changes
  std::vector<std::string> results_;             // descriptions
  std::vector<std::size_t> differentiable_;      // [gradient]: index of its result
  bool is_collective_ = false;
  bool is_released_ = false;
};

variable_list RecomputeBackward::call(const variable_list& inputs,
                                      const std::shared_ptr<Node>& self) {
  variables::Graph* graph = variables::current_graph();
  variables::CollectedCounts collected;
  std::optional<variables::VariableWatch> watch;
  if (graph != nullptr) {
    collected = graph->collected_counts();
    watch.emplace(graph->store());
  }
  const std::vector<std::int64_t> versions = versions_of(inputs);
  const variable_list leaves = detached(inputs);
  const std::uint64_t begin = at::sequence_number::peek();
  variable_list outputs;
  {
    const device::AutocastScope without_cache(state_.autocast());
    outputs = function_(leaves);
  }
  check_unchanged(versions, versions_of(inputs));
  if (watch) statistics_ = watch->changed();
  const CallResults results(
      outputs, graph != nullptr ? graph->collected_since(collected) : std::vector<at::Tensor*>());
  results_ = descriptions(results.tensors());
  captured_ = captured_edges(results.tensors(), leaves, begin);
  keep_versions();
  edge_list edges = torch::autograd::collect_next_edges(inputs);
  edges.insert(edges.end(), captured_.begin(), captured_.end());
  set_next_edges(std::move(edges));
  find_collectives(results.tensors());
  variable_list replaced = results.tensors();
  for (std::size_t i = 0; i < replaced.size(); ++i) {
    if (!is_differentiable(replaced[i])) continue;
    replaced[i] = replaced[i].detach();
    torch::autograd::set_history(replaced[i], self);
    differentiable_.push_back(i);
  }
  results.replace_by(replaced);
  return outputs;
}

/// Where the graph of the first call leads out of it, except to its inputs.
edge_list RecomputeBackward::captured_edges(const variable_list& results,
                                            const variable_list& leaves,
                                            std::uint64_t begin) const {
  std::unordered_set<Edge> known;
  for (const Edge& edge : torch::autograd::collect_next_edges(leaves)) known.insert(edge);
  edge_list captured;
  edge_list roots = torch::autograd::collect_next_edges(results);
  visit_edges(roots, [&](const Edge& edge) {
    if (known.contains(edge)) return true;
    if (!is_older(edge, begin)) return false;
    known.insert(edge);
    captured.push_back(edge);
    return true;
  });
  return captured;
}

void RecomputeBackward::keep_versions() {
  for (const Edge& edge : captured_) {
    const at::Tensor* leaf = leaf_of(edge);
    versions_.push_back(leaf == nullptr ? 0 : leaf->_version());
  }
}

void RecomputeBackward::check_versions() const {
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    const at::Tensor* leaf = leaf_of(captured_[i]);
    check_state(leaf == nullptr || leaf->_version() == versions_[i], "recompute: a variable ",
                leaf == nullptr ? "" : description(*leaf),
                " that the function uses was changed between forward and backward, so a second "
                "call would compute something else: run backward before the update.");
  }
}

// The second call runs on the one thread that runs backward for all replicas on a card.
void RecomputeBackward::find_collectives(const variable_list& results) {
  const comm::Replica* replica = comm::current_replica();
  if (replica == nullptr || replica->count == 1) return;
  is_collective_ = std::ranges::any_of(results, comm::backward_is_collective);
  if (!is_collective_) return;
  if (std::ranges::none_of(results, [](const at::Tensor& t) { return t.defined() && t.is_cuda(); }))
    return;
  throw Error(ErrorCode::kUnimplemented,
              "recompute: the function contains collectives (batch norm over the global batch), "
              "which it could not repeat in backward on GPUs; leave it out of recompute.");
}

variable_list RecomputeBackward::unpacked_inputs() {
  const std::lock_guard lock(mutex_);
  check_state(!is_released_,
              "recompute: backward runs a second time, and the first one has released the inputs: "
              "retain the graph the first time.");
  variable_list inputs;
  for (const SavedVariable& input : inputs_) inputs.push_back(input.unpack());
  return inputs;
}

/// The results and what was collected, with a graph.
variable_list RecomputeBackward::call_again(const variable_list& leaves) const {
  ForwardState::Installed state(state_);
  const c10::OptionalDeviceGuard device(device_of(leaves));
  const variables::KeptValues statistics(statistics_);
  variable_list outputs;
  try {
    outputs = function_(leaves);
  } catch (...) {
    statistics.restore();
    throw;
  }
  statistics.restore();
  const CallResults results(outputs, state.graph() != nullptr ? state.graph()->collected_since({})
                                                              : std::vector<at::Tensor*>());
  const std::vector<std::string> found = descriptions(results.tensors());
  check_state(found == results_, "recompute: the function returned ", base::join(found, ", "),
              " in its second call and ", base::join(results_, ", "),
              " in its first: it must compute the same both times.");
  return results.tensors();
}

/// Redirects the edges that lead out of the second call to collectors: [output of this node].
edge_list RecomputeBackward::redirected(edge_list& roots, const variable_list& leaves,
                                        std::uint64_t begin) const {
  edge_list collectors;
  std::unordered_map<Edge, std::size_t> known;
  edge_list outer = torch::autograd::collect_next_edges(leaves);
  outer.insert(outer.end(), captured_.begin(), captured_.end());
  for (std::size_t i = 0; i < outer.size(); ++i) {
    if (outer[i].is_valid()) known.emplace(outer[i], i);
    collectors.push_back(outer[i].is_valid() ? Edge(std::make_shared<Collector>(outer[i]), 0)
                                             : Edge());
  }
  visit_edges(roots, [&](Edge& edge) {
    const auto found = known.find(edge);
    if (found != known.end()) {
      edge = collectors[found->second];
      return true;
    }
    check_state(!is_older(edge, begin),
                "recompute: the function used a variable, or a tensor with a gradient, in its "
                "second call that it did not use in its first: it must compute the same both "
                "times, and must not make tensors that require gradients.");
    return false;
  });
  return collectors;
}

variable_list RecomputeBackward::inner_backward(const variable_list& results,
                                                const variable_list& leaves,
                                                const variable_list& gradients,
                                                std::uint64_t begin) const {
  variable_list used, root_gradients, found(num_outputs());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    used.push_back(results[differentiable_[i]]);
    root_gradients.push_back(gradients[i]);
  }
  if (used.empty()) return found;
  edge_list roots = torch::autograd::collect_next_edges(used);
  const edge_list collectors = redirected(roots, leaves, begin);
  edge_list wanted;
  std::vector<std::size_t> index;
  for (std::size_t i = 0; i < collectors.size(); ++i) {
    if (!collectors[i].is_valid() || !task_should_compute_output(i)) continue;
    wanted.push_back(collectors[i]);
    index.push_back(i);
  }
  if (wanted.empty()) return found;
  variable_list values = torch::autograd::Engine::get_default_engine().execute(
      roots, root_gradients, /*keep_graph=*/false, /*create_graph=*/false,
      /*accumulate_grad=*/false, wanted);
  for (std::size_t i = 0; i < index.size(); ++i) found[index[i]] = std::move(values[i]);
  return found;
}

variable_list RecomputeBackward::apply(variable_list&& gradients) {
  if (at::GradMode::is_enabled()) {
    throw Error(ErrorCode::kUnimplemented,
                "recompute cannot be differentiated twice (create_graph): where gradients of "
                "gradients are needed, call the function without recompute.");
  }
  check_versions();
  const variable_list leaves = detached(unpacked_inputs());
  const std::uint64_t begin = at::sequence_number::peek();
  const variable_list results = call_again(leaves);
  return inner_backward(results, leaves, gradients, begin);
}

}  // namespace

std::vector<at::Tensor> recompute_list(TensorFunction function,
                                       const std::vector<at::Tensor>& inputs) {
  if (!at::GradMode::is_enabled()) return function(inputs);
  const auto node = std::make_shared<RecomputeBackward>(std::move(function), inputs);
  return node->call(inputs, node);
}

}  // namespace brigade::layers
