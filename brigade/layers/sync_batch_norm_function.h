#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "brigade/comm/communicator.h"

/// What the forms of synchronized batch norm share. For layers.
namespace brigade::layers {

/// The ranks whose batches are normalized as one: those of the calling replica, or null where it is
/// alone or no replica runs.
comm::Communicator* ranks_of_global_batch();

/// Inputs normalized by the batch of all ranks, and what that batch is.
struct GlobalBatchNorm {
  at::Tensor result;
  at::Tensor mean, variance;  ///< [C], float64, on the inputs' device; the variance is the batch's
  std::int64_t count = 0;     ///< values a channel

  /// The estimate of the distribution's variance: divided by one value less; 0 for one value.
  at::Tensor variance_of_distribution() const;
};

/// `inputs` [N, C, ...] with mean 0 and variance 1 a channel over the batches of all ranks, times
/// `gamma` plus `beta` [C] (undefined: 1 and 0). One collective, and one in backward; both carry
/// 2 C float64 values through host memory, and the statistics have the same bits in every rank. N
/// may differ between ranks and be 0 in some: those run backward too, or the others wait in vain.
/// Throws as `Communicator::all_gather`.
GlobalBatchNorm global_batch_norm(comm::Communicator& ranks, const at::Tensor& inputs,
                                  const at::Tensor& gamma, const at::Tensor& beta, double epsilon);

}  // namespace brigade::layers
