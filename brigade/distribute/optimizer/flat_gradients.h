#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "brigade/optim/optimizer_state.h"

namespace brigade::distribute {

/// The gradients of one replica in flat buffers, on its device and with the layout of the
/// variables' storages: so one call reduces a bucket of them, and one call updates the variables of
/// a run. The gaps between variables, and frozen variables, are zeros.
///
/// A bucket is a range of whole variables. Buckets go from the last variable to the first, which is
/// about the order in which backward completes gradients.
///
/// Thread-safety: different variables and buckets from several threads at the same time.
class FlatGradients {
 public:
  /// Buckets have at least `bytes_per_bucket` bytes, except where a storage begins.
  FlatGradients(const optim::OptimizerState& state, int replica, std::int64_t bytes_per_bucket);

  std::size_t num_buckets() const { return buckets_.size(); }
  /// [variable]: the bucket of its gradient; unset for frozen variables.
  const std::vector<std::optional<std::size_t>>& bucket_of() const { return bucket_of_; }
  /// The elements of a bucket, flat.
  const at::Tensor& bucket(std::size_t number) const { return buckets_[number]; }
  /// Storage `storage`'s gradients, flat.
  const at::Tensor& buffer(std::size_t storage) const { return buffers_[storage]; }
  /// A variable's gradient, in its shape.
  const at::Tensor& of(std::size_t variable) const { return gradients_[variable]; }

  /// Queues a copy of the gradient to its place; of zeros, if it is undefined.
  void fill(std::size_t variable, const at::Tensor& gradient) const;

 private:
  void add_bucket(const optim::OptimizerState& state, std::size_t storage,
                  std::span<const std::size_t> variables);

  std::vector<at::Tensor> buffers_;    // [storage]
  std::vector<at::Tensor> gradients_;  // [variable]
  std::vector<at::Tensor> buckets_;
  std::vector<std::optional<std::size_t>> bucket_of_;
};

}  // namespace brigade::distribute
