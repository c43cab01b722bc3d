#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

#include "brigade/machine/core_set.h"
#include "brigade/machine/device_name.h"
#include "brigade/machine/topology.h"

namespace brigade::device {

/// One logical device of this process: what a replica runs on.
///
/// A logical CPU is a share of the machine's cores, with `threads` threads for each tensor
/// operation. A logical GPU is a card, or a share of one card that several replicas use through
/// streams of their own.
///
/// Thread-safety: a value.
struct Device {
  machine::DeviceName name;
  /// Where libtorch puts this device's tensors: `cpu`, or `cuda:CARD`.
  c10::Device torch_device = c10::Device(c10::kCPU);
  /// The index in the name.
  int logical_index = 0;
  /// The cores on which to keep the replica's thread (`machine::AffinityScope`). Empty: leave it to
  /// the system, which is so for GPUs, and for CPUs that share cores or run under a time limit.
  machine::CoreSet cores;
  /// What to give to `at::set_num_threads` in the replica's thread.
  int threads = 1;

  bool is_cpu() const { return name.type == machine::DeviceType::kCpu; }

  friend bool operator==(const Device&, const Device&) = default;
};

/// Whether logical CPUs may be more, in threads, than the cores they run on.
enum class Oversubscription {
  kRefuse,  ///< It is an error: replicas that share a core slow each other down.
  kAllow,  ///< They share the cores and none is pinned: for tests, and to try out a job meant for a
           ///< larger machine.
};

/// How the machine is divided into logical devices. TensorFlow: `set_logical_device_configuration`.
struct DiscoveryOptions {
  /// Logical CPUs. Unset: as many as fill the usable cores; `resolve_devices` then makes as many as
  /// the names need.
  std::optional<int> logical_cpus = std::nullopt;
  /// Threads, and cores, that each logical CPU gets.
  int threads_per_cpu = 1;
  /// Logical GPUs on each card.
  int logical_gpus_per_card = 1;
  Oversubscription oversubscription = Oversubscription::kRefuse;
};

/// What logical devices are made of. Tests pass one of their own.
struct Hardware {
  machine::Topology topology;
  int gpu_cards = 0;
};

/// Looks at this machine. Without libtorch's CUDA libraries in the program, or without a driver,
/// there are no cards.
Hardware discover_hardware();

/// All logical devices, CPUs first. Throws kInvalidArgument for options below 1 and, unless
/// oversubscription is allowed, for more logical CPUs than usable cores. TensorFlow:
/// `list_logical_devices`.
std::vector<Device> available_devices(const DiscoveryOptions& options = {});
std::vector<Device> available_devices(const DiscoveryOptions& options, const Hardware& hardware);

/// The logical GPUs alone; empty where there is none. slim: `get_available_gpus`.
std::vector<Device> available_gpus(const DiscoveryOptions& options = {});

/// The devices of these names, in the order given, in any spelling that `machine::DeviceName`
/// reads. Throws
///   kInvalidArgument  for no names, a malformed name, a device named twice (in whatever spelling),
///   a task of a cluster, and
///                     more logical CPUs than usable cores (an OversubscriptionError, unless
///                     `Oversubscription::kAllow` is given);
///   kNotFound         for a device that does not exist, listing those that do.
std::vector<Device> resolve_devices(const std::vector<std::string>& names,
                                    const DiscoveryOptions& options = {});
std::vector<Device> resolve_devices(const std::vector<std::string>& names,
                                    const DiscoveryOptions& options, const Hardware& hardware);

/// These devices in a few words, for messages: "cpu:0 to cpu:7 and no gpu".
std::string list_devices(const std::vector<Device>& devices);

/// Whether two of these devices are logical GPUs of one card.
bool share_a_card(const std::vector<Device>& devices);

}  // namespace brigade::device
