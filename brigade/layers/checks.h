#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// Argument checks shared by layers. All throw kInvalidArgument, naming `layer`.
namespace brigade::layers {

/// Throws unless it is 1 or more.
void check_outputs(const char* layer, std::int64_t num_outputs);

/// Throws unless `inputs` is defined and has at least this many dimensions.
void check_dimensions(const char* layer, const at::Tensor& inputs, std::int64_t at_least);

/// Throws unless `keep_prob` is in (0, 1].
void check_keep_prob(const char* layer, double keep_prob);

}  // namespace brigade::layers
