#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace brigade::models {

/// A module that returns one score per class for every example. `make_model` returns it, so that a
/// program can choose a model by name; code that knows its model uses the concrete class.
///
/// Weights have libtorch's default initialization, with the generator of the calling thread: seed
/// it first. Thread-safety: one forward at a time, as for any torch::nn::Module.
class Classifier : public torch::nn::Module {
 public:
  explicit Classifier(const std::string& name) : torch::nn::Module(name) {}

  /// Returns the logits [N, classes] of a batch of N examples; N may be 0. Throws
  /// `Error{kInvalidArgument}`, with the shape, if the batch has another shape than the model
  /// takes.
  virtual at::Tensor forward(const at::Tensor& batch) = 0;
  at::Tensor operator()(const at::Tensor& batch) { return forward(batch); }
};

}  // namespace brigade::models
