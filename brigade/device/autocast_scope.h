#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>

#include "brigade/device/precision.h"

namespace brigade::device {

/// Whether and to which dtype libtorch's autocast casts on a thread.
///
/// Thread-safety: a value; `current` reads the calling thread's.
class AutocastState {
 public:
  /// The calling thread's.
  static AutocastState current();
  /// That of a forward pass in this precision, on every kind of device.
  static AutocastState of(Precision precision);

  /// The dtype that matrix products on this kind of device are cast to; nothing if they are not.
  std::optional<at::ScalarType> dtype(c10::DeviceType device) const;

 private:
  friend class AutocastScope;
  struct OfDevice {
    bool is_enabled = false;
    at::ScalarType dtype = at::kBFloat16;
  };
  std::array<OfDevice, 2> devices_;  // CPU, CUDA
};

/// Sets the calling thread's autocast while it lives.
///
/// Open it around the forward pass and the loss, not around backward, which uses the dtypes of
/// forward by itself. `Strategy::run` opens one in each replica (`Strategy::set_precision`), and
/// optimizers leave it for backward and update.
///
/// libtorch keeps casts of weights in a cache until its Python front end clears it. In C++ nobody
/// does: a second step would compute with the weights of the first, and a weight that was cast
/// while no gradients were recorded would get none. The cache also belongs to all threads together,
/// so that clearing it in one replica would change the order of additions in another. So this scope
/// never uses the cache: a weight is cast for each operation that reads it.
///
/// Thread-safety: open and close it on the same thread, inner scopes first. PyTorch:
/// torch.autocast(cache_enabled=False).
class AutocastScope {
 public:
  explicit AutocastScope(const AutocastState& state);
  explicit AutocastScope(Precision precision) : AutocastScope(AutocastState::of(precision)) {}
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const AutocastState before_;
  const bool had_cache_;
};

/// The dtype of a variable that a layer uses together with `activation`: the activation's, or
/// float32 where autocast has cast the activation.
at::ScalarType variable_dtype(const at::Tensor& activation);

/// `activation` in float32 where autocast has cast it, for losses and for what leaves a model;
/// differentiable.
at::Tensor uncast(const at::Tensor& activation);

/// Forgets the casts of weights that code that enables autocast itself has left in libtorch's
/// cache.
void clear_autocast_cache();

}  // namespace brigade::device
