#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace brigade::variables {

/// Whether the replicas' components of a variable are one piece of memory or several.
enum class StorageSharing {
  kOneStorage,   ///< replicas on CPU: every component is an alias of the same memory, so nothing is
                 ///< ever copied
  kOneCopyEach,  ///< replicas on devices of their own
  kController  ///< one home on a controller's device, and a copy of it wherever a replica's device
               ///< has other memory
};

/// Which replicas read a copy of what lies on a controller.
enum class Caching {
  kWhereNeeded,  ///< those on a device other than the controller's
  kAlways  ///< all: to try out on CPU what happens between devices, at the price of the copies
};

/// The device on which variables live that belong to no replica.
struct Controller {
  c10::Device device = c10::Device(c10::kCPU);
  Caching caching = Caching::kWhereNeeded;
};

/// Trainable variables of one dtype, laid one behind another, so that an optimizer updates a whole
/// range with one fused kernel and a share of the work is a range of elements. One buffer for all
/// replicas, or one each with the same layout. Every variable starts at a multiple of 64 bytes; the
/// gaps hold zeros.
///
/// Under a controller the home is the truth: optimizers update it, and `refresh` then brings each
/// copy up to date by one flat copy, once a step.
///
/// Thread-safety: immutable but for the elements, whose owners synchronize.
class FlatStorage {
 public:
  /// Lays out variables of `sizes` elements each. `devices` has one entry a replica; `controller`
  /// counts for kController only.
  FlatStorage(at::ScalarType dtype, std::span<const std::int64_t> sizes,
              std::span<const c10::Device> devices, StorageSharing sharing,
              const Controller& controller = {});

  at::ScalarType dtype() const { return dtype_; }
  /// Elements in all, gaps included.
  std::int64_t size() const { return size_; }
  /// Where the i-th variable begins, in elements.
  std::int64_t offset(std::size_t i) const { return offsets_[i]; }
  /// Where a variable begins that follows, with nothing but a gap between, one that ends at `end`.
  std::int64_t next_offset(std::int64_t end) const;
  StorageSharing sharing() const { return sharing_; }
  int replicas() const { return replicas_; }
  /// The flat tensor [size()] that holds replica `replica`'s components: what it reads.
  const at::Tensor& buffer(int replica) const;

  /// How many buffers there are to update: one a replica for kOneCopyEach, else one.
  int masters() const;
  /// The buffer to update so that replica `replica` sees it, and on whose device optimizer slots
  /// lie: the home under a controller, else what the replica reads.
  const at::Tensor& master(int replica) const;
  /// Whether replica `replica` reads a copy of its master, which `refresh` must follow.
  bool is_cached(int replica) const;
  /// Copies the master to replica `replica`'s buffer; nothing where they are the same.
  void refresh(int replica) const;

 private:
  at::ScalarType dtype_;
  StorageSharing sharing_;
  int replicas_;
  std::int64_t size_ = 0;
  std::vector<std::int64_t> offsets_;
  std::vector<at::Tensor> buffers_;  // one for all (kOneStorage), or [replica]
  at::Tensor home_;                  // kController
};

}  // namespace brigade::variables
