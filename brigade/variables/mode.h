#pragma once

namespace brigade::variables {

/// The purpose of a pass through a model: layers such as dropout and batch norm depend on it.
/// TensorFlow: `is_training`, Keras: `training=`.
enum class Mode { kTraining, kEvaluation };

}  // namespace brigade::variables
