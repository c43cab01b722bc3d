#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "brigade/machine/device_name.h"

namespace brigade::machine {

/// Part of a device's name, or all of it: what one device scope says, to be merged with what the
/// scopes around it say. A `DeviceName` in contrast names exactly one device. TensorFlow:
/// tf.DeviceSpec.
///
/// Thread-safety: a value.
struct DeviceSpec {
  std::optional<std::string> job = std::nullopt;
  std::optional<int> replica = std::nullopt;
  std::optional<int> task = std::nullopt;
  std::optional<DeviceType> type = std::nullopt;
  /// Unset beside a type: any device of this type ("gpu", "/device:GPU:*").
  std::optional<int> index = std::nullopt;

  /// Reads every spelling that `DeviceName::parse` reads, with any part left out: "/job:ps",
  /// "/job:ps/task:1", "/gpu:0", "gpu:0", "gpu", "/device:GPU:*", and "" for nothing at all. Throws
  /// kInvalidArgument, showing the spellings, for anything else, and for a part that is there
  /// twice.
  static DeviceSpec parse(std::string_view text);

  /// This over `outer`, field by field: what is set here stays, the rest comes from `outer`. An
  /// index counts devices of a type, but merges on its own, as in TensorFlow: "gpu" inside of
  /// "cpu:1" is "gpu:1". TensorFlow: `outer.make_merged_spec(*this)`.
  DeviceSpec merged_over(const DeviceSpec& outer) const;

  /// TensorFlow's spelling of the parts that are set, which `parse` reads back:
  /// "/job:ps/task:1/device:GPU:0", "/device:GPU:*", "".
  std::string to_string() const;

  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

/// The end of an error message about a name: how names are written.
inline constexpr std::string_view kDeviceSpellings =
    "Write cpu:0, gpu:0 or cuda:0, /device:CPU:0, or with a task of a cluster "
    "/job:worker/task:1/device:GPU:0.";

}  // namespace brigade::machine
