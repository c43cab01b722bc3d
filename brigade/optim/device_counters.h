#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// The numbers of updates and the learning rates of an optimizer's variables on one device, where
/// updates read them. The host keeps its own (`OptimizerState`), which count: it sends a value only
/// when the device's is another, never waits for one, and a captured update counts on the device by
/// itself.
///
/// Thread-safety: one thread, which queues the device's updates.
class DeviceCounters {
 public:
  /// For variables with these rates of their own; unset: the optimizer's.
  DeviceCounters(c10::Device device, std::vector<std::optional<double>> own_rates);

  /// Queues what gives the variables [first, last) the host's rate and numbers of updates; nothing
  /// if they have them.
  void follow(double learning_rate, std::span<const std::int64_t> steps, std::size_t first,
              std::size_t last);
  /// Queues the count of one more update of the variables [first, last), which have had equally
  /// many and have one rate, and returns what the update reads.
  DeviceScalars count(std::size_t first, std::size_t last);
  /// The same for an update that is captured, and so is not made yet: a replay counts it on the
  /// device, and `record_replay` here.
  DeviceScalars count_captured(std::size_t first, std::size_t last) const;
  void record_replay(std::size_t first, std::size_t last);

 private:
  at::Tensor steps_;                        // float32 [variable]
  at::Tensor rate_;                         // float32, of all variables without one of their own
  std::vector<at::Tensor> own_rates_;       // [variable]; undefined: it has none
  double queued_rate_ = 0.0;                // what `rate_` will be
  std::vector<std::int64_t> queued_steps_;  // [variable]: what `steps_` will be
};

}  // namespace brigade::optim
