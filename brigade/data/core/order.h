#pragma once

namespace brigade::data {

/// The order in which a parallel step returns its results.
///
/// TensorFlow counterpart: `deterministic` of Dataset.map and of tf.data.Options.
enum class Order {
  kInOrder,  ///< The order of the input: the same elements in the same order in every run.
  kRelaxed,  ///< As they are ready: a slow element delays no other. None is lost or repeated.
};

}  // namespace brigade::data
