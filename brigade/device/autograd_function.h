#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable_info.h>

#include <memory>
#include <utility>
#include <vector>

namespace brigade::device {

/// A differentiable function with a backward pass of its own, as a class derived from
/// `torch::autograd::Function` is. Each of those compiles 30 KB of code again, most of it for
/// torch.compile, which C++ does not have; this is compiled once, and what is not a tensor are
/// ordinary members.
///
///   class Scaled final : public device::AutogradFunction {
///    public:
///     explicit Scaled(double factor) : factor_(factor) {}
///
///    private:
///     at::Tensor forward(const Tensors& inputs) override { return inputs[0] * factor_; }
///     Tensors backward(const Tensors& gradients) override { return {gradients[0] * factor_}; }
///
///     double factor_;
///   };
///   const at::Tensor y = device::apply_function<Scaled>({x}, 2.0);
///
/// An object is one call: a node of the graph, named for its class.
///
/// Thread-safety: libtorch calls backward() on one thread at a time.
class AutogradFunction : public torch::autograd::Node {
 public:
  using Tensors = torch::autograd::variable_list;

  /// Calls `function`, of which nobody else may have made a call; if a gradient of `inputs` is
  /// wanted, the result has it in its graph.
  static at::Tensor call(const std::shared_ptr<AutogradFunction>& function, const Tensors& inputs);

 protected:
  /// Returns a new tensor, neither one of `inputs` nor a view. Runs without recording operations.
  virtual at::Tensor forward(const Tensors& inputs) = 0;

  /// Takes the gradient of the result, and returns one of each input; undefined where none is
  /// wanted, or where it is zero.
  virtual Tensors backward(const Tensors& gradients) = 0;

  /// Keeps tensors for `saved()`: inputs, and others that forward() makes, but not its result. To
  /// be called in forward(), once.
  void save_for_backward(const Tensors& tensors);

  /// What was saved. Throws libtorch's errors where a tensor was changed in place since then, or if
  /// a backward pass that does not retain the graph was here before.
  Tensors saved() const;

  /// Whether the pass that runs backward() wants the gradient of this input.
  bool needs_gradient(std::size_t input) const { return task_should_compute_output(input); }

 private:
  bool is_recorded() const { return num_outputs() > 0; }
  Tensors apply(Tensors&& gradients) final;
  void release_variables() final;

  std::vector<torch::autograd::SavedVariable> saved_;
  torch::autograd::VariableInfo result_;
};

/// Calls a new `F`, made of `arguments`, with `inputs`.
template <class F, class... Arguments>
at::Tensor apply_function(const AutogradFunction::Tensors& inputs, Arguments&&... arguments) {
  // libtorch's way to end a long chain of nodes without recursion.
  const std::shared_ptr<F> function(new F(std::forward<Arguments>(arguments)...),
                                    torch::autograd::deleteNode);
  return AutogradFunction::call(function, inputs);
}

}  // namespace brigade::device
