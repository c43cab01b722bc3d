#pragma once

namespace brigade::variables {

/// What a pass through a model is for: layers such as dropout and batch norm behave differently.
/// TensorFlow: `is_training`, Keras: `training=`.
enum class Mode { kTraining, kEvaluation };

}  // namespace brigade::variables
