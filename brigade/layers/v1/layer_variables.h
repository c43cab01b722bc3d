#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "brigade/variables/collections.h"
#include "brigade/variables/layer_value.h"
#include "brigade/variables/variable_options.h"

/// Creates the variables of the layers in this folder. Internal.
namespace brigade::layers::v1 {

inline at::Tensor get_variable_like(const at::Tensor& like, const std::string& name,
                                    const std::vector<std::int64_t>& shape,
                                    variables::VariableOptions options) {
  options.dtype = like.scalar_type();
  options.collections = {variables::kGlobalVariables, variables::kModelVariables};
  return variables::get_value(name, shape, options, like.device());
}

template <class Options>
at::Tensor get_kernel(const std::vector<std::int64_t>& shape, const at::Tensor& like,
                      const Options& options) {
  return get_variable_like(like, "kernel", shape,
                           {.initializer = options.kernel_initializer,
                            .regularizer = options.kernel_regularizer,
                            .trainable = options.trainable});
}

/// The bias; undefined if the layer has none.
template <class Options>
at::Tensor get_bias(std::int64_t size, const at::Tensor& like, const Options& options) {
  if (!options.use_bias) return {};
  return get_variable_like(
      like, "bias", {size},
      {.initializer =
           options.bias_initializer ? options.bias_initializer : variables::zeros_initializer(),
       .regularizer = options.bias_regularizer,
       .trainable = options.trainable});
}

}  // namespace brigade::layers::v1
