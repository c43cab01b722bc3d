#pragma once

/// The names of the standard collections. Programs may add collections with any other name.
/// TensorFlow: tf.GraphKeys.
///
/// A *variable* belongs to its store, and so do the collections of variables. A loss, an update or
/// an end point is created in each pass through the model and belongs to the `Graph` of the pass.
namespace brigade::variables {

inline constexpr const char* kGlobalVariables = "variables";
inline constexpr const char* kTrainableVariables = "trainable_variables";
/// Not saved: counters of metrics and the like.
inline constexpr const char* kLocalVariables = "local_variables";
/// What inference needs: weights, and the moving statistics of batch norm.
inline constexpr const char* kModelVariables = "model_variables";
inline constexpr const char* kGlobalStep = "global_step";

}  // namespace brigade::variables
