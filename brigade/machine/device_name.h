#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace brigade::machine {

/// What a device computes with. libtorch's `cuda` is TensorFlow's `gpu`.
enum class DeviceType { kCpu, kGpu };

/// `cpu` or `gpu`.
std::string_view to_string(DeviceType type);

/// The name of one device, of this machine or of a task of a cluster. Only a name:
/// `device::resolve_devices` checks whether the device exists.
///
/// Indices are logical: `cpu:1` is the second logical CPU, `gpu:1` the second logical GPU, as in
/// TensorFlow after `set_logical_device_configuration`.
///
/// Thread-safety: a value.
struct DeviceName {
  /// The cluster job; case is preserved. Unset: this process.
  std::optional<std::string> job = std::nullopt;
  /// TensorFlow's replica field, in practice always 0.
  std::optional<int> replica = std::nullopt;
  /// The task's index within its job.
  std::optional<int> task = std::nullopt;
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  /// Parses any of these spellings; everything but the job's name is case-insensitive:
  ///   TensorFlow: `/gpu:0`, `/device:CPU:1`, `/job:worker/replica:0/task:1/device:GPU:0`,
  ///   `/job:worker/task:1/gpu:0` libtorch:   `cpu:1`, `cuda:0`, and `gpu:0`; without an index
  ///   (`cpu`, `cuda`, `gpu`) the first one
  /// White space around the name is ignored. Throws kInvalidArgument, showing the spellings, for
  /// anything else.
  static DeviceName parse(std::string_view text);

  /// True if the name refers to a task of a cluster, not to this process.
  bool is_remote() const { return job || replica || task; }

  /// The short canonical spelling, which `parse` reads back: `cpu:1`, `gpu:0`,
  /// `/job:worker/task:1/gpu:0`.
  std::string to_string() const;

  /// TensorFlow's full spelling: `/device:CPU:1`, `/job:worker/replica:0/task:1/device:GPU:0`.
  std::string tensorflow_name() const;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

}  // namespace brigade::machine
