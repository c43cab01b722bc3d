#include "brigade/layers/v1/core.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>

#include "brigade/layers/checks.h"
#include "brigade/layers/v1/layer_variables.h"

namespace brigade::layers::v1 {

at::Tensor dense(const at::Tensor& inputs, std::int64_t units, const DenseOptions& options) {
  check_dimensions("dense", inputs, 2);
  check_outputs("dense", units);
  const OpenLayer layer(options.name, "dense", options.reuse);
  const auto input = layer.place("MatMul", inputs);
  const auto kernel = get_kernel({units, input.size(-1)}, input, options);
  const auto bias = get_bias(units, input, options);
  return activate(options.activation, at::linear(input, kernel, bias));
}

at::Tensor dropout(const at::Tensor& inputs, const DropoutOptions& options) {
  check_dimensions("dropout", inputs, 0);
  check_keep_prob("dropout", 1.0 - options.rate);
  const OpenLayer layer(options.name, "dropout", std::nullopt);
  const auto input = layer.place("dropout", inputs);
  const bool drops = options.mode == variables::Mode::kTraining && options.rate > 0.0;
  return drops ? at::dropout(input, options.rate, /*train=*/true) : input;
}

at::Tensor flatten(const at::Tensor& inputs, const LayerScope& name) {
  check_dimensions("flatten", inputs, 2);
  const OpenLayer layer(name, "flatten", std::nullopt);
  return layer.place("Reshape", inputs).flatten(1);
}

}  // namespace brigade::layers::v1
