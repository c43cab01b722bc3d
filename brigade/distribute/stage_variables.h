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

/// Which variables the stages use that a micro-batch has passed through.
struct VariableUse {
  VariableSet used;
  VariableSet tied;  ///< by stages of several workers

  /// The same with the stages of one more worker, which use `here`.
  VariableUse with(const VariableSet& here) const;
};

/// The variables that the optimizers of a pipeline train, in one of its workers. All workers number
/// them alike.
///
/// A variable that layers of several workers use (a tied weight) is trained by the first of them:
/// the others give their gradients away. The gradient of a penalty of weights, which is computed in
/// every worker, is given away where the penalized variable is not used. Variables whose gradients
/// were given away are sent to all workers after each update.
///
/// Thread-safety: `give_away` for each micro-batch from its own thread; `set_source`,
/// `begin_step`, `end_step` and `take_given_away` while none of these calls it; the rest from any.
class StageVariables {
 public:
  using Source = std::function<std::vector<variables::Variable>()>;

  explicit StageVariables(int micro_batches);

  /// What lists the variables that optimizers train. Unset: there are none.
  void set_source(Source source) { source_ = std::move(source); }
  /// Asks for the variables that there are now.
  void begin_step();
  /// Lets go of them.
  void end_step();

  std::size_t count() const { return variables_.size(); }
  const variables::Variable& variable(std::size_t number) const { return variables_[number]; }
  /// The number of the variable of which this tensor is a component.
  std::optional<std::size_t> find(const at::Tensor& component) const;
  VariableSet none() const { return VariableSet(count(), false); }

  /// The gradient of a micro-batch was sent to an earlier worker, or left to another one.
  void give_away(int micro_batch, std::size_t number);
  /// The names of the variables whose gradients were given away since the last call.
  std::set<std::string> take_given_away();

 private:
  Source source_;
  std::vector<variables::Variable> variables_;
  std::unordered_map<const void*, std::size_t> numbers_;  // by their memory, which replicas share
  std::vector<std::set<std::string>> given_away_;         // [micro-batch]
};

/// What the graph behind a tensor leads to.
struct BackwardLeaves {
  VariableSet variables;
  bool has_received = false;  ///< `received` of `leaves_behind`
  bool has_others = false;    ///< leaves that are neither
  bool has_inner = false;     ///< the node of `inner`
};

/// The leaves by which the graph behind `root` has gradients. What is behind `inner` is left out,
/// if that is not null.
BackwardLeaves leaves_behind(const at::Tensor& root, const StageVariables& variables,
                             const at::Tensor& received,
                             const torch::autograd::Node* inner = nullptr);
/// The same for the node that computed `inner`, a tensor with a gradient.
BackwardLeaves leaves_behind(const at::Tensor& root, const StageVariables& variables,
                             const at::Tensor& received, const at::Tensor& inner);

/// Sets as bytes, and back: for messages.
at::Tensor to_bytes(const VariableUse& use);
std::int64_t bytes_of_use(std::size_t variables);
VariableUse use_from_bytes(const at::Tensor& bytes, std::size_t variables);

/// The gradients of tied variables, undefined ones as well, as bytes, and back: of `numbers`, and
/// shaped like these variables. Throws kUnimplemented, naming the variable, for sparse ones.
at::Tensor pack_gradients(const std::vector<std::size_t>& numbers,
                          const std::vector<at::Tensor>& gradients,
                          const StageVariables& variables);
std::vector<at::Tensor> unpack_gradients(const at::Tensor& bytes,
                                         const std::vector<std::size_t>& numbers,
                                         const StageVariables& variables);

}  // namespace brigade::distribute
