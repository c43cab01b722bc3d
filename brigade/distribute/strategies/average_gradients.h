#pragma once

#include "brigade/distribute/optimizer/gradients.h"
#include "brigade/distribute/per_replica.h"

namespace brigade::distribute {

/// The mean of the towers' gradients, for `Optimizer::apply_gradients` outside of replicas:
///
///   auto towers = strategy.run([&](ReplicaContext&, const Batch& batch) {
///     return adam.compute_gradients(loss(batch), LossScale::kAlreadyScaled); }, batches);
///   adam.apply_gradients(average_gradients(towers));
///
/// For each variable it is the mean over the towers that have a gradient of it; a variable without
/// a gradient in any tower has none in the result. Gradients are summed in replica order, on the
/// device of the variables. Towers are not weighted by their numbers of examples: the mean is exact
/// if each tower's loss is the mean over a batch of the same size. Throws kInvalidArgument if the
/// towers' gradients are not of the same optimizer and step, or if an assigned gradient does not
/// have its variable's shape and dtype. TensorFlow: average_gradients of the multi-tower tutorials.
Gradients average_gradients(const PerReplica<Gradients>& towers);

}  // namespace brigade::distribute
