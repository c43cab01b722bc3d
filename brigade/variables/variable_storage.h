#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "brigade/device/device.h"

namespace brigade::variables {

/// The positions of variables of one dtype in a flat buffer: one after another, each at a multiple
/// of 64 bytes. The gaps hold zeros.
class FlatLayout {
 public:
  /// For variables of `sizes` elements each.
  FlatLayout(at::ScalarType dtype, std::span<const std::int64_t> sizes);

  at::ScalarType dtype() const { return dtype_; }
  /// The total number of elements, including gaps.
  std::int64_t size() const { return size_; }
  /// The offset of the i-th variable, in elements.
  std::int64_t offset(std::size_t i) const { return offsets_[i]; }
  /// The offset of a variable that directly follows, after the alignment gap, a variable that ends
  /// at `end`.
  std::int64_t next_offset(std::int64_t end) const;

 private:
  at::ScalarType dtype_;
  std::int64_t size_ = 0;
  std::vector<std::int64_t> offsets_;
};

/// The memory of trainable variables of one dtype: flat buffers with one layout, so that an
/// optimizer updates a range of variables with one fused kernel, and work is divided by ranges of
/// elements. Replicas read buffers; optimizers update masters. Where a replica reads a copy of its
/// master, `refresh` updates the copy, once per step.
///
/// Implement it, and a `StorageFactory`, to keep the variables of a strategy elsewhere
/// (`StrategyParts::storage`); `FlatStorage` has the built-in kinds.
///
/// Thread-safety: immutable except for the elements; their users must synchronize.
class VariableStorage {
 public:
  VariableStorage(FlatLayout layout, int replicas)
      : layout_(std::move(layout)), replicas_(replicas) {}
  virtual ~VariableStorage() = default;
  VariableStorage(const VariableStorage&) = delete;
  VariableStorage& operator=(const VariableStorage&) = delete;

  /// See FlatLayout.
  at::ScalarType dtype() const { return layout_.dtype(); }
  std::int64_t size() const { return layout_.size(); }
  std::int64_t offset(std::size_t i) const { return layout_.offset(i); }
  std::int64_t next_offset(std::int64_t end) const { return layout_.next_offset(end); }
  int replicas() const { return replicas_; }

  /// The flat tensor [size()] that replica `replica` reads: its components. Always the same tensor.
  virtual const at::Tensor& buffer(int replica) const = 0;
  /// The number of buffers to update: one per replica, or one for all.
  virtual int masters() const = 0;
  /// The buffer to update for replica `replica`, always the same tensor; optimizer slots are on its
  /// device. The buffer that the replica reads, unless that is a copy.
  virtual const at::Tensor& master(int replica) const = 0;
  /// Whether a write to `master(0)` is a write for all replicas.
  virtual bool is_shared() const = 0;
  /// Whether the variables are on a controller: a device that belongs to no replica.
  virtual bool is_central() const { return false; }
  /// Copies the master to replica `replica`'s buffer; does nothing if they are the same. Called by
  /// the replica's thread.
  virtual void refresh(int replica) const;

  /// Whether replica `replica` reads a copy of its master, which `refresh` updates.
  bool is_cached(int replica) const { return !buffer(replica).is_same(master(replica)); }

 private:
  FlatLayout layout_;
  int replicas_;
};

/// Makes the storages of a strategy's variables: one for each dtype of a model.
///
/// Thread-safety: const calls from one thread at a time.
class StorageFactory {
 public:
  virtual ~StorageFactory() = default;

  /// A storage that holds zeros. `devices` has one entry per replica.
  virtual std::shared_ptr<VariableStorage> make(const FlatLayout& layout,
                                                std::span<const c10::Device> devices) const = 0;
  /// The device of the variables, if they are on a controller (`VariableStorage::is_central`).
  /// Batch statistics, which every replica writes, are then taken from replica 0, as with towers.
  virtual std::optional<device::Device> controller() const { return std::nullopt; }
};

/// How the replicas' components of a variable are stored.
enum class StorageSharing {
  kOneStorage,   ///< for replicas on CPU, or on one card: all components are aliases of the same
                 ///< memory, so nothing is ever copied
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
  device::Device device = {};
  Caching caching = Caching::kWhereNeeded;
};

/// The built-in kinds of storage: tensors of this process, one for all replicas or one for each.
/// With a controller, optimizers update the master copy, and `refresh` then updates each replica's
/// copy with one flat copy per step.
///
/// Thread-safety: see VariableStorage.
class FlatStorage final : public VariableStorage {
 public:
  /// `devices` has one entry per replica; `controller` is used for kController only.
  FlatStorage(const FlatLayout& layout, std::span<const c10::Device> devices,
              StorageSharing sharing, const Controller& controller = {});

  const at::Tensor& buffer(int replica) const override;
  int masters() const override;
  const at::Tensor& master(int replica) const override;
  bool is_shared() const override { return sharing_ != StorageSharing::kOneCopyEach; }
  bool is_central() const override { return sharing_ == StorageSharing::kController; }

 private:
  StorageSharing sharing_;
  std::vector<at::Tensor> buffers_;  // one for all (kOneStorage), or [replica]
  at::Tensor home_;                  // kController
};

/// Makes a FlatStorage of one kind for each dtype.
std::shared_ptr<const StorageFactory> make_flat_storage_factory(StorageSharing sharing,
                                                                const Controller& controller = {});

}  // namespace brigade::variables
