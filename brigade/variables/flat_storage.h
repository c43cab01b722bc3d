#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace brigade::variables {

/// Whether the replicas' components of a variable are one piece of memory or several.
enum class Sharing {
  kOneStorage,  ///< replicas on CPU: every component is an alias of the same memory, so nothing is
                ///< ever copied
  kOneCopyEach  ///< replicas on devices of their own
};

/// Trainable variables of one dtype, laid one behind another, so that an optimizer updates a whole
/// range with one fused kernel and a share of the work is a range of elements. One buffer for all
/// replicas, or one each with the same layout. Every variable starts at a multiple of 64 bytes; the
/// gaps hold zeros.
///
/// Thread-safety: immutable but for the elements, whose owners synchronise.
class FlatStorage {
 public:
  /// Lays out variables of `sizes` elements each. `devices` has one entry a replica.
  FlatStorage(at::ScalarType dtype, std::span<const std::int64_t> sizes,
              std::span<const c10::Device> devices, Sharing sharing);

  at::ScalarType dtype() const { return dtype_; }
  /// Elements in all, gaps included.
  std::int64_t size() const { return size_; }
  /// Where the i-th variable begins, in elements.
  std::int64_t offset(std::size_t i) const { return offsets_[i]; }
  /// Where a variable begins that follows, with nothing but a gap between, one that ends at `end`.
  std::int64_t next_offset(std::int64_t end) const;
  Sharing sharing() const { return sharing_; }
  int replicas() const { return replicas_; }
  /// The flat tensor [size()] that holds replica `replica`'s components.
  const at::Tensor& buffer(int replica) const;

 private:
  at::ScalarType dtype_;
  Sharing sharing_;
  int replicas_;
  std::int64_t size_ = 0;
  std::vector<std::int64_t> offsets_;
  std::vector<at::Tensor> buffers_;
};

}  // namespace brigade::variables
