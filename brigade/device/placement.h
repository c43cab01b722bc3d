#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/device/device.h"
#include "brigade/device/device_scope.h"

namespace brigade::device {

/// What to do if the chosen device does not exist in this process.
enum class MissingDevice {
  kFallBack,  ///< Use the first CPU, and log this once for each device. TensorFlow:
              ///< allow_soft_placement.
  kRefuse,    ///< kNotFound, listing what exists.
};

/// Options of Placer: what happens without the chosen device, and the log of placements.
struct PlacementOptions {
  /// What happens if the chosen device does not exist here.
  MissingDevice missing = MissingDevice::kFallBack;
  /// One line for each variable and layer, the first time it is placed: `conv1/weights:
  /// (variable): cpu:0`. TensorFlow: log_device_placement.
  bool log = false;
  /// Receives the lines; empty: `base::log_info`. Called by one thread at a time; it must not call
  /// the placer.
  std::function<void(std::string_view line)> sink = {};
};

/// What a chosen name without a device ("/job:worker/task:0") means.
enum class NameWithoutDevice {
  kFirstCpu,  ///< the first CPU
  kNoChoice,  ///< nothing: in a replica of a strategy, which computes on its own device
};

/// Maps the names chosen by device scopes to existing devices, and logs placements.
///
/// Thread-safety: all members may be called from any thread; towers share one.
class Placer {
 public:
  /// On this machine's devices.
  explicit Placer(PlacementOptions options = {});
  /// On these devices, and the first CPU: every process has that one.
  Placer(PlacementOptions options, std::vector<Device> devices,
         NameWithoutDevice without_device = NameWithoutDevice::kFirstCpu);

  /// The device that the open scopes choose for `request`, or null if no scope chooses one; writes
  /// the log line. A name without a device ("/job:worker") means what `NameWithoutDevice` says, one
  /// without an index ("gpu") the first device of its type; tasks of a cluster are treated as this
  /// process. Throws kNotFound by the options, and kInvalidArgument if a device function gives a
  /// malformed name.
  std::optional<Device> place(const PlacementRequest& request);

  /// The device of this name by the same rules; only a fallback is logged. The empty name means the
  /// first CPU.
  Device resolve(const std::string& name);

  /// Writes the log line of a variable or layer that was not placed by scopes (a strategy's
  /// variables), once for each kind and name. Does nothing if the log is off.
  void record(PlacedKind kind, const std::string& name, const std::string& device);

  bool logs() const { return options_.log; }
  /// All lines so far, in the order of writing.
  std::vector<std::string> lines() const;

 private:
  const Device& find_or_fall_back(const std::string& name, std::string_view what);
  void warn_of_fall_back(const std::string& missing);

  const PlacementOptions options_;
  const std::vector<Device> devices_;
  const NameWithoutDevice without_device_;
  mutable concurrency::Mutex mutex_;
  std::set<std::pair<PlacedKind, std::string>> recorded_ BRIGADE_GUARDED_BY(mutex_);
  std::set<std::string> fallen_back_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<std::string> lines_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::device
