#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace brigade::device {

/// The precision in which forward passes compute. Variables, their gradients, optimizers and
/// checkpoints are in the dtypes of the variables with each of them. Keras: mixed precision
/// policies.
enum class Precision {
  kFull,  ///< the dtypes of variables and inputs
  /// bfloat16 where libtorch's autocast uses it: in matrix products and convolutions of float32
  /// tensors. Losses are computed in float32. About half the activation memory, and faster where
  /// the device has instructions for it. Needs no scaling of the loss.
  kBf16,
  /// float16 by the same rules: more digits than bfloat16, but gradients below 6e-8 become 0 and
  /// numbers above 65504 infinite, so scale the loss (`OptimizerOptions::gradient_scaler`).
  kFp16,
};

/// "full", "bf16", "fp16".
std::string_view to_string(Precision precision);
/// Throws kInvalidArgument, with the nearest name and all names, for another one.
Precision precision_from(std::string_view name);
/// All names.
std::vector<std::string> precision_names();

}  // namespace brigade::device
