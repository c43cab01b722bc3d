#pragma once

namespace brigade::data {

/// In which order the results of a parallel step leave it.
///
/// TensorFlow counterpart: `deterministic` of Dataset.map and of tf.data.Options.
enum class Order {
  kInOrder,  ///< The order of the input: the same elements in the same order in every run.
  kRelaxed,  ///< As they are ready: a slow element holds up no other. Nothing is lost or doubled.
};

}  // namespace brigade::data
