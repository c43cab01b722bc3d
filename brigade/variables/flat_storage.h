#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace brigade::variables {

/// How the replicas' components of a variable are stored.
enum class StorageSharing {
  kOneStorage,   ///< for replicas on CPU: all components are aliases of the same memory, so nothing
                 ///< is ever copied
  kOneCopyEach,  ///< one copy per replica, for replicas on different devices
  kController    ///< one master copy on the controller's device, and a copy of it on each replica
                 ///< device with separate memory
};

/// Which replicas read a copy of the variables on a controller.
enum class Caching {
  kWhereNeeded,  ///< replicas on a device other than the controller's
  kAlways        ///< all replicas: to test copies between devices on CPU, at the cost of the copies
};

/// The device of variables that do not belong to a replica.
struct Controller {
  c10::Device device = c10::Device(c10::kCPU);
  Caching caching = Caching::kWhereNeeded;
};

/// A contiguous buffer of trainable variables of one dtype, so that an optimizer updates a range of
/// variables with one fused kernel, and work is divided by ranges of elements. There is one buffer
/// for all replicas, or one per replica with the same layout. Every variable starts at a multiple
/// of 64 bytes; the gaps hold zeros.
///
/// With a controller, optimizers update the master copy, and `refresh` then updates each replica's
/// copy with one flat copy per step.
///
/// Thread-safety: immutable except for the elements; their users must synchronize.
class FlatStorage {
 public:
  /// Allocates variables of `sizes` elements each. `devices` has one entry per replica;
  /// `controller` is used for kController only.
  FlatStorage(at::ScalarType dtype, std::span<const std::int64_t> sizes,
              std::span<const c10::Device> devices, StorageSharing sharing,
              const Controller& controller = {});

  at::ScalarType dtype() const { return dtype_; }
  /// The total number of elements, including gaps.
  std::int64_t size() const { return size_; }
  /// The offset of the i-th variable, in elements.
  std::int64_t offset(std::size_t i) const { return offsets_[i]; }
  /// The offset of a variable that directly follows, after the alignment gap, a variable that ends
  /// at `end`.
  std::int64_t next_offset(std::int64_t end) const;
  StorageSharing sharing() const { return sharing_; }
  int replicas() const { return replicas_; }
  /// The flat tensor [size()] that replica `replica` reads: its components.
  const at::Tensor& buffer(int replica) const;

  /// The number of buffers to update: one per replica for kOneCopyEach, else one.
  int masters() const;
  /// The buffer to update for replica `replica`; optimizer slots are on its device. The master copy
  /// with a controller, else the buffer that the replica reads.
  const at::Tensor& master(int replica) const;
  /// Whether replica `replica` reads a copy of its master, which `refresh` updates.
  bool is_cached(int replica) const;
  /// Copies the master to replica `replica`'s buffer; does nothing if they are the same.
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
