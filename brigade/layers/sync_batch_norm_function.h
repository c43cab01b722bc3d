#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "brigade/comm/communicator.h"

/// Shared by the forms of synchronized batch norm. For layers.
namespace brigade::layers {

/// The ranks whose batches are normalized as one: those of the calling replica, or null if there is
/// only one or no replica is running.
comm::Communicator* ranks_of_global_batch();

/// Inputs normalized by the batch of all ranks, and the statistics of that batch.
struct GlobalBatchNorm {
  at::Tensor result;
  at::Tensor mean, variance;  ///< [C], float64, on the inputs' device; the biased variance
  std::int64_t count = 0;     ///< values per channel

  /// The unbiased variance: divided by one less; 0 for one value.
  at::Tensor variance_of_distribution() const;
};

/// Normalizes `inputs` [N, C, ...] to mean 0 and variance 1 per channel over the batches of all
/// ranks, then multiplies by `gamma` and adds `beta` [C] (undefined: 1 and 0). One collective in
/// forward and one in backward; both send 2 C float64 values through host memory, and the
/// statistics have the same bits in every rank. N may differ between ranks and may be 0: such ranks
/// must run backward too, or the others hang. Throws as `Communicator::all_gather`.
GlobalBatchNorm global_batch_norm(comm::Communicator& ranks, const at::Tensor& inputs,
                                  const at::Tensor& gamma, const at::Tensor& beta, double epsilon);

}  // namespace brigade::layers
