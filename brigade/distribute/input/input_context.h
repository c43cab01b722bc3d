#pragma once

#include <cstdint>
#include <string>

namespace brigade::distribute {

/// Tells a function that makes an input pipeline which pipeline of the job it makes (TensorFlow:
/// tf.distribute.InputContext).
struct InputContext {
  int num_input_pipelines = 1;   ///< one for each worker, or for each replica
  int input_pipeline_id = 0;     ///< the index of this pipeline
  int num_replicas_in_sync = 1;  ///< over all workers
  /// The device of the replica that this pipeline feeds, as libtorch writes it ("cuda:1"); empty if
  /// the pipeline feeds all replicas of a worker.
  std::string torch_device = {};

  /// The number of examples of each replica in a global batch of `global_batch_size`. Throws
  /// kInvalidArgument if that does not divide evenly, naming the nearest sizes that do.
  std::int64_t get_per_replica_batch_size(std::int64_t global_batch_size) const;
};

}  // namespace brigade::distribute
