#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

/// Two hidden layers: positions [N, 2] in, a score for each of two classes [N, 2] out.
struct SpiralNet : torch::nn::Module {
  explicit SpiralNet(std::int64_t width = 64) {
    first = register_module("first", torch::nn::Linear(2, width));
    second = register_module("second", torch::nn::Linear(width, width));
    scores = register_module("scores", torch::nn::Linear(width, 2));
  }
  at::Tensor forward(const at::Tensor& positions) {
    return scores(second(first(2 * positions).relu()).relu());
  }
  torch::nn::Linear first = nullptr, second = nullptr, scores = nullptr;
};
