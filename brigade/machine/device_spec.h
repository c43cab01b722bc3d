#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "brigade/machine/device_name.h"

namespace brigade::machine {

/// A partial or full device name: the contents of one device scope, which is merged with the scopes
/// around it. A `DeviceName`, in contrast, names exactly one device. TensorFlow: tf.DeviceSpec.
///
/// Thread-safety: a value.
struct DeviceSpec {
  std::optional<std::string> job = std::nullopt;
  std::optional<int> replica = std::nullopt;
  std::optional<int> task = std::nullopt;
  std::optional<DeviceType> type = std::nullopt;
  /// Unset with a type: any device of this type ("gpu", "/device:GPU:*").
  std::optional<int> index = std::nullopt;

  /// Reads every spelling that `DeviceName::parse` reads, with any part left out: "/job:ps",
  /// "/job:ps/task:1", "/gpu:0", "gpu:0", "gpu", "/device:GPU:*", and "" for nothing at all. Throws
  /// kInvalidArgument, showing the spellings, for anything else, and for a repeated part.
  static DeviceSpec parse(std::string_view text);

  /// Merges this spec over `outer`, field by field: fields that are set here are kept, the others
  /// come from `outer`. The index is merged separately from the type, as in TensorFlow: "gpu"
  /// inside "cpu:1" is "gpu:1". TensorFlow: `outer.make_merged_spec(*this)`.
  DeviceSpec merged_over(const DeviceSpec& outer) const;

  /// TensorFlow's spelling of the parts that are set, which `parse` reads back:
  /// "/job:ps/task:1/device:GPU:0", "/device:GPU:*", "".
  std::string to_string() const;

  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

/// The end of an error message about a device name: the valid spellings.
inline constexpr std::string_view kDeviceSpellings =
    "Write cpu:0, gpu:0 or cuda:0, /device:CPU:0, or with a task of a cluster "
    "/job:worker/task:1/device:GPU:0.";

}  // namespace brigade::machine
