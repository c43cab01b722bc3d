#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "brigade/models/classifier.h"
#include "brigade/variables/mode.h"

namespace brigade::variables {
class VariableStore;
}  // namespace brigade::variables

namespace brigade::models {

/// A model as a function of layers: returns the logits [N, classes] of images [N, C, H, W]. For
/// `Strategy::create`.
using ClassifierFunction =
    std::function<at::Tensor(const at::Tensor& images, variables::Mode mode)>;

/// A function of layers as a module: its variables are the module's parameters and buffers, under
/// their own names ("conv1/weights"), so that everything that takes a torch::nn::Module takes the
/// function: torch::optim, `parameters()`, `named_buffers()`, `to(device)`, `Strategy::create`.
/// Under a strategy, `Strategy::create(function, example)` is the direct way, and gives variables
/// of the same names; choose the module for code that wants one, and for plain libtorch.
///
/// - `train()` and `eval()` set the mode of the function. In training, batch norm's statistics move
///   at the end of `forward`, as those of libtorch's module do, without an optimizer of Brigade.
/// - Each forward pass has a separate graph: regularization losses and end points are discarded,
///   but for those in the collection `layers::kEndPoints`, which the caller's graph gets, if there
///   is one.
/// - Initial values derive from a seed that is drawn from the generator of the calling thread, and
///   from the variables' names.
/// - Inside a replica the module computes with its own tensors, which are the replica's if the
///   strategy created the module.
///
/// Thread-safety: one forward at a time.
class FunctionClassifier : public Classifier {
 public:
  /// Calls `function` once, for `example`, to create the variables; an example [0, C, H, W] of no
  /// images costs no time. Throws what the function throws.
  FunctionClassifier(const std::string& name, ClassifierFunction function,
                     const at::Tensor& example);
  ~FunctionClassifier() override;

  at::Tensor forward(const at::Tensor& batch) override;

 private:
  ClassifierFunction function_;
  std::unique_ptr<variables::VariableStore> store_;
};

}  // namespace brigade::models
