#include "brigade/models/mlp.h"

#include <ATen/ops/relu.h>
#include <torch/nn/modules/linear.h>

#include "brigade/base/error.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/layers/end_points.h"

namespace brigade::models {
namespace {

void check_width(const char* name, std::int64_t width) {
  if (width >= 1) return;
  refuse("Mlp: ", name, " is ", width, "; expected 1 or more");
}

}  // namespace

Mlp::Mlp(const MlpOptions& options)
    : Classifier("Mlp"), inputs_(options.inputs), end_points_(options.end_points) {
  check_width("inputs", options.inputs);
  for (const auto width : options.hidden) check_width("a hidden layer's width", width);
  check_width("classes", options.classes);
  auto widths = options.hidden;
  widths.push_back(options.classes);
  auto from = inputs_;
  for (const auto to : widths) {
    names_.push_back("dense" + std::to_string(names_.size() + 1));
    layers_.push_back(
        register_module(names_.back(), std::make_shared<torch::nn::LinearImpl>(from, to)));
    from = to;
  }
  layers::check_end_points("mlp", end_points_, names_);
}

at::Tensor Mlp::forward(const at::Tensor& batch) {
  if (!batch.defined()) {
    refuse("Mlp: the batch is an undefined tensor");
  }
  // The product over the dimensions, not numel() / N, which fails for an empty batch.
  std::int64_t values = 1;
  for (std::int64_t i = 1; i < batch.dim(); ++i) values *= batch.size(i);
  if (batch.dim() < 2 || values != inputs_) {
    refuse("Mlp: the batch has shape ", batch.sizes(), "; expected [N, ...] with ", inputs_,
           " values per example");
  }
  auto x = batch.dim() == 2 ? batch : batch.reshape({batch.size(0), inputs_});
  layers::EndPoints points;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (i > 0) at::relu_(x);  // in place: what uses the previous layer's output wants it so
    x = layers_[i]->forward(comm::begin_layer(names_[i], x));
    if (!end_points_.empty()) points.set(names_[i], x);
  }
  layers::add_end_points("mlp", points, end_points_);
  return x;
}

}  // namespace brigade::models
