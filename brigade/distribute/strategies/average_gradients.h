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
/// For each variable the mean over the towers that have a gradient of it; one that none has stays
/// without. Added up in replica order, on the device where the variables' home is. It is the mean
/// of the towers and knows nothing of their examples: exact where each tower's loss is the mean
/// over a batch of the same size. Throws kInvalidArgument if the towers' gradients are not one
/// optimizer's, of one step, or if one was assigned that has not its variable's shape and dtype.
/// TensorFlow: average_gradients of the multi-tower tutorials.
Gradients average_gradients(const PerReplica<Gradients>& towers);

}  // namespace brigade::distribute
