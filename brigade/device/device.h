#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/machine/core_set.h"
#include "brigade/machine/device_name.h"
#include "brigade/machine/topology.h"

namespace brigade::device {

/// One logical device of this process, on which a replica runs.
///
/// A logical CPU is a subset of the machine's cores, with `threads` threads for each tensor
/// operation. A logical GPU is a card, or one of several logical GPUs of a card, each of which uses
/// its own stream.
///
/// Thread-safety: a value.
struct Device {
  machine::DeviceName name;
  /// The libtorch device of this device's tensors: `cpu`, or `cuda:CARD`.
  c10::Device torch_device = c10::Device(c10::kCPU);
  /// The index in the name.
  int logical_index = 0;
  /// The cores to pin the replica's thread to (`machine::AffinityScope`). Empty: not pinned, as for
  /// GPUs, and for CPUs that share cores or run under a CPU time limit.
  machine::CoreSet cores;
  /// The argument of `at::set_num_threads` in the replica's thread.
  int threads = 1;

  bool is_cpu() const { return name.type == machine::DeviceType::kCpu; }

  friend bool operator==(const Device&, const Device&) = default;
};

/// A logical CPU beyond the cores, or more threads on it than cores, was requested without
/// `DiscoveryOptions::allow_oversubscription` (kInvalidArgument). A separate type, so that a
/// program can name its own option for it.
class OversubscriptionError : public Error {
 public:
  using Error::Error;
};

/// How the machine is divided into logical devices. TensorFlow: `set_logical_device_configuration`.
struct DiscoveryOptions {
  /// The number of logical CPUs. Unset: as many as fill the usable cores; `resolve_devices` then
  /// creates as many as the names need.
  std::optional<int> logical_cpus = std::nullopt;
  /// The number of threads and cores of each logical CPU.
  int threads_per_cpu = 1;
  /// Logical GPUs on each card.
  int logical_gpus_per_card = 1;
  /// More logical CPUs than cores share the cores and are not pinned, which slows them down. By
  /// default this logs a warning, and a CPU beyond both the cores and the number of CPUs named, or
  /// with more threads than there are cores, is an error. If true, there is neither: for tests, and
  /// to try out a job for a larger machine.
  bool allow_oversubscription = false;
};

/// The hardware that logical devices are made from. Tests pass their own.
struct Hardware {
  machine::Topology topology;
  int gpu_cards = 0;
};

/// Detects this machine's hardware. Without libtorch's CUDA libraries in the program, or without a
/// driver, there are no GPUs.
Hardware discover_hardware();

/// All logical devices, CPUs first. Throws kInvalidArgument for options below 1 and, unless
/// oversubscription is allowed, for more threads per CPU than usable cores. TensorFlow:
/// `list_logical_devices`.
std::vector<Device> available_devices(const DiscoveryOptions& options = {});
std::vector<Device> available_devices(const DiscoveryOptions& options, const Hardware& hardware);

/// The logical GPUs only; empty if there are none. slim: `get_available_gpus`.
std::vector<Device> available_gpus(const DiscoveryOptions& options = {});

/// The devices with these names, in the given order, in any spelling that `machine::DeviceName`
/// accepts. Throws
///   kInvalidArgument  for no names, a malformed name, a device named twice (in whatever spelling),
///   a task of a cluster, and
///                     unless `allow_oversubscription` is set, a logical CPU beyond the usable
///                     cores and beyond the number of CPUs named, and more threads per CPU than
///                     usable cores (an OversubscriptionError);
///   kNotFound         for a device that does not exist, listing those that do.
std::vector<Device> resolve_devices(const std::vector<std::string>& names,
                                    const DiscoveryOptions& options = {});
std::vector<Device> resolve_devices(const std::vector<std::string>& names,
                                    const DiscoveryOptions& options, const Hardware& hardware);

/// A short description of these devices for messages: "cpu:0 to cpu:7 and no gpu".
std::string list_devices(const std::vector<Device>& devices);

/// Whether two of these devices are logical GPUs of one card.
bool share_a_card(const std::vector<Device>& devices);

}  // namespace brigade::device
