#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "brigade/variables/variable.h"

namespace torch::autograd {
struct Node;
}

namespace brigade::distribute {

/// Some of the variables that the optimizers of a pipeline train: [number].
using VariableSet = std::vector<bool>;

/// Which variables are used by the stages that a micro-batch has passed through.
struct VariableUse {
  VariableSet used;
  VariableSet tied;  ///< used by stages of several workers

  /// The same with one more worker, whose stages use `variables`.
  VariableUse with(const VariableSet& variables) const;
};

/// The tied variables whose gradients the process sends back that has received `before` with an
/// activation: previous processes use these variables. `in_all`: the use by all stages.
std::vector<std::size_t> tied_before(const VariableUse& before, const VariableUse& in_all);

/// The variables that the optimizers of a pipeline train, in one of its workers. All workers number
/// them alike.
///
/// A variable that layers of several workers use (a tied weight) is trained by the first of these
/// workers: the others send it their gradients. The gradient of a penalty of weights, which is
/// computed in every worker, is dropped in workers that do not use the penalized variable. After
/// each update, the values of variables that are marked as trained elsewhere are sent to all
/// workers.
///
/// Thread-safety: `mark_trained_elsewhere` for each micro-batch from its own thread; `set_source`,
/// `begin_step`, `end_step` and `take_trained_elsewhere` while no thread calls that; the rest from
/// any thread.
class StageVariables {
 public:
  using Source = std::function<std::vector<variables::Variable>()>;

  explicit StageVariables(int micro_batches);

  /// What lists the variables that optimizers train. Unset: there are none.
  void set_source(Source source) { source_ = std::move(source); }
  /// Gets the variables from the source.
  void begin_step();
  /// Releases them.
  void end_step();

  std::size_t count() const { return variables_.size(); }
  const variables::Variable& variable(std::size_t number) const { return variables_[number]; }
  /// The number of the variable of which this tensor is a component.
  std::optional<std::size_t> find(const at::Tensor& component) const;
  VariableSet none() const { return VariableSet(count(), false); }

  /// This worker has a gradient of the variable, which another worker trains.
  void mark_trained_elsewhere(int micro_batch, std::size_t number);
  /// The names of the variables marked since the last call.
  std::set<std::string> take_trained_elsewhere();

 private:
  Source source_;
  std::vector<variables::Variable> variables_;
  std::unordered_map<const void*, std::size_t> numbers_;  // by their memory, which replicas share
  std::vector<std::set<std::string>> trained_elsewhere_;  // [micro-batch]
};

/// The leaves of a tensor's autograd graph.
struct BackwardLeaves {
  VariableSet variables;
  bool has_received = false;  ///< `received` of `backward_leaves`
  bool has_others = false;    ///< leaves that are neither
  bool has_inner = false;     ///< the node of `inner`
};

/// The leaves that get gradients in a backward pass from `root`. The search stops at the node
/// `inner`, if that is not null.
BackwardLeaves backward_leaves(const at::Tensor& root, const StageVariables& variables,
                               const at::Tensor& received,
                               const torch::autograd::Node* inner = nullptr);
/// The same for the node that computed `inner`, a tensor with a gradient.
BackwardLeaves backward_leaves(const at::Tensor& root, const StageVariables& variables,
                               const at::Tensor& received, const at::Tensor& inner);

/// Sets as bytes, and back: for messages.
at::Tensor to_bytes(const VariableUse& use);
std::int64_t bytes_of_use(std::size_t variables);
VariableUse use_from_bytes(const at::Tensor& bytes, std::size_t variables);

/// The gradients of tied variables as bytes, undefined ones as well, and back: of `numbers`, shaped
/// like these variables. Throws kUnimplemented, naming the variable, for sparse ones.
at::Tensor pack_gradients(const std::vector<std::size_t>& numbers,
                          const std::vector<at::Tensor>& gradients,
                          const StageVariables& variables);
std::vector<at::Tensor> unpack_gradients(const at::Tensor& bytes,
                                         const std::vector<std::size_t>& numbers,
                                         const StageVariables& variables);

}  // namespace brigade::distribute
