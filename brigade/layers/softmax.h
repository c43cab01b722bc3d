#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace brigade::layers {

/// The softmax over the last dimension of `logits`. `scope` names it in the graph, if one is open:
/// default softmax, made unique. For losses use the functions with logits, which are exact even for
/// extreme values. TensorFlow: slim.softmax. Throws kInvalidArgument for a scalar.
at::Tensor softmax(const at::Tensor& logits, const std::string& scope = "");

}  // namespace brigade::layers
