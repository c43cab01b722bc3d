#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace brigade::models {

/// A module that gives every example one score a class. What `make_model` returns, so that a
/// program can choose a model by name; code that knows its model uses the concrete class.
///
/// Weights are initialized as libtorch does by default, from the calling thread's generator: seed
/// it first. Thread-safety: one forward at a time, as any torch::nn::Module.
class Classifier : public torch::nn::Module {
 public:
  explicit Classifier(const std::string& name) : torch::nn::Module(name) {}
  ~Classifier() override;

  /// The logits [N, classes] of a batch of N examples, N = 0 included. Throws
  /// `Error{kInvalidArgument}` naming the shape if the batch is not what the model takes.
  virtual at::Tensor forward(const at::Tensor& batch) = 0;
  at::Tensor operator()(const at::Tensor& batch) { return forward(batch); }
};

}  // namespace brigade::models
