#pragma once

#include <cstdint>
#include <string>

namespace brigade::distribute {

/// What a function that makes an input pipeline knows of its place in the job (TensorFlow:
/// tf.distribute.InputContext).
struct InputContext {
  int num_input_pipelines = 1;   ///< workers that read input, or replicas, if each has a pipeline
  int input_pipeline_id = 0;     ///< this one
  int num_replicas_in_sync = 1;  ///< over all workers
  /// The device of the replica whose pipeline this is, as libtorch writes it ("cuda:1"); empty
  /// where the pipeline is a worker's.
  std::string torch_device = {};

  /// The examples of each replica in a global batch of `global_batch_size`. Throws kInvalidArgument
  /// if that does not divide evenly, naming the nearest sizes that do.
  std::int64_t get_per_replica_batch_size(std::int64_t global_batch_size) const;
};

}  // namespace brigade::distribute
