#include "brigade/device/device.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/device/libtorch_version.h"
#include "brigade/device/memory_limit.h"

namespace brigade::device {
namespace {

using machine::DeviceName;
using machine::DeviceType;

void check_options(const DiscoveryOptions& options) {
  const auto check = [](int value, std::string_view what) {
    if (value >= 1) return;
    throw Error(ErrorCode::kInvalidArgument, "The number of ", what, " is ", value,
                "; it must be at least 1.");
  };
  if (options.logical_cpus) check(*options.logical_cpus, "logical CPUs");
  check(options.threads_per_cpu, "threads for each logical CPU");
  check(options.logical_gpus_per_card, "logical GPUs on each card");
}

std::string cores_text(std::int64_t count) {
  return base::str_cat(count, count == 1 ? " core" : " cores");
}

int cpus_that_fit(const DiscoveryOptions& options, const Hardware& hardware) {
  return std::max(1, hardware.topology.usable_cores() / options.threads_per_cpu);
}

bool is_oversubscribed(std::int64_t cpus, const DiscoveryOptions& options,
                       const Hardware& hardware) {
  return cpus * options.threads_per_cpu > hardware.topology.usable_cores();
}

/// Checks that `cpus` logical CPUs may exist, of which `named` are asked for; warns if they share
/// cores.
void check_subscription(std::int64_t cpus, std::int64_t named, const DiscoveryOptions& options,
                        const Hardware& hardware) {
  if (options.allow_oversubscription || !is_oversubscribed(cpus, options, hardware)) return;
  const std::string cores = cores_text(hardware.topology.usable_cores());
  if (options.threads_per_cpu > hardware.topology.usable_cores()) {
    throw OversubscriptionError(
        ErrorCode::kInvalidArgument,
        base::str_cat("A logical CPU of ", options.threads_per_cpu, " threads on ", cores,
                      " would be slow. Use fewer threads, or allow oversubscription."));
  }
  const std::string each = options.threads_per_cpu == 1
                               ? ""
                               : base::str_cat(" of ", options.threads_per_cpu, " threads each");
  if (cpus > std::max<std::int64_t>(named, cpus_that_fit(options, hardware))) {
    throw OversubscriptionError(
        ErrorCode::kInvalidArgument,
        base::str_cat("Device cpu:", cpus - 1, " is beyond the logical CPUs", each, " of ", cores,
                      ", and only ", named, named == 1 ? " CPU is" : " CPUs are",
                      " named. Number them from cpu:0, or allow oversubscription."));
  }
  base::log_warning(cpus, " logical CPUs", each, " share ", cores,
                    " and slow each other down; they are not pinned.");
}

machine::CoreSet cores_of(int index, const DiscoveryOptions& options,
                          const std::vector<int>& order) {
  const auto first = order.begin() + static_cast<std::ptrdiff_t>(index) * options.threads_per_cpu;
  return machine::CoreSet(std::vector<int>(first, first + options.threads_per_cpu));
}

std::vector<Device> logical_cpus(int count, const DiscoveryOptions& options,
                                 const Hardware& hardware) {
  const std::vector<int> order = hardware.topology.cores_by_distance();
  const bool pin = hardware.topology.may_pin() && !is_oversubscribed(count, options, hardware);
  std::vector<Device> devices;
  for (int index = 0; index < count; ++index) {
    Device device;
    device.name = DeviceName{.type = DeviceType::kCpu, .index = index};
    device.logical_index = index;
    device.threads = options.threads_per_cpu;
    if (pin) device.cores = cores_of(index, options, order);
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<Device> logical_gpus(const DiscoveryOptions& options, const Hardware& hardware) {
  std::vector<Device> devices;
  for (int index = 0; index < hardware.gpu_cards * options.logical_gpus_per_card; ++index) {
    const int card = index / options.logical_gpus_per_card;
    Device device;
    device.name = DeviceName{.type = DeviceType::kGpu, .index = index};
    device.torch_device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(card));
    device.logical_index = index;
    device.threads = options.threads_per_cpu;
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<Device> all_devices(int cpus, const DiscoveryOptions& options,
                                const Hardware& hardware) {
  std::vector<Device> devices = logical_cpus(cpus, options, hardware);
  for (auto& gpu : logical_gpus(options, hardware)) devices.push_back(std::move(gpu));
  return devices;
}

std::vector<DeviceName> parse_names(const std::vector<std::string>& names) {
  check_argument(!names.empty(), "No device is named; name at least one, for example cpu:0.");
  std::vector<DeviceName> parsed;
  for (const auto& text : names) {
    const DeviceName name = DeviceName::parse(text);
    if (name.is_remote()) {
      throw Error(ErrorCode::kInvalidArgument, "'", text,
                  "' names a task of a cluster; expected devices of this process, for example ",
                  machine::to_string(name.type), ":", name.index, ".");
    }
    const auto before = std::find(parsed.begin(), parsed.end(), name);
    if (before != parsed.end()) {
      const auto& other = names[static_cast<std::size_t>(before - parsed.begin())];
      const std::string spelling =
          other == text ? "" : base::str_cat(", as '", other, "' and as '", text, "'");
      throw Error(ErrorCode::kInvalidArgument, "Device ", name.to_string(), " is named twice",
                  spelling, "; each replica needs its own.");
    }
    parsed.push_back(name);
  }
  return parsed;
}

// If `logical_cpus` is unset, the names decide.
std::int64_t cpus_needed(const std::vector<DeviceName>& names, const DiscoveryOptions& options,
                         const Hardware& hardware) {
  if (options.logical_cpus) return *options.logical_cpus;
  std::int64_t needed = cpus_that_fit(options, hardware);
  for (const auto& name : names) {
    if (name.type == DeviceType::kCpu)
      needed = std::max<std::int64_t>(needed, std::int64_t{name.index} + 1);
  }
  return needed;
}

// "cpu:0 to cpu:7" rather than eight names.
std::string existing(DeviceType type, const std::vector<Device>& devices) {
  std::set<int> indices;
  for (const Device& device : devices) {
    if (device.name.type == type) indices.insert(device.name.index);
  }
  const std::string word(machine::to_string(type));
  if (indices.empty()) return base::str_cat("no ", word);
  std::vector<std::string> runs;
  for (auto first = indices.begin(); first != indices.end();) {
    auto last = first;
    auto next = std::next(first);
    while (next != indices.end() && *next == *last + 1) last = next++;
    const std::string end = last == first ? "" : base::str_cat(" to ", word, ":", *last);
    runs.push_back(base::str_cat(word, ":", *first, end));
    first = next;
  }
  return base::join(runs, ", ");
}

const Device& find_device(const DeviceName& name, const std::vector<Device>& devices) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const Device& device) { return device.name == name; });
  if (found != devices.end()) return *found;
  throw Error(ErrorCode::kNotFound, "There is no device ", name.to_string(), " here; there are ",
              list_devices(devices), ".");
}

}  // namespace

Hardware discover_hardware() {
  check_torch_version();
  return {.topology = machine::discover_topology(),
          .gpu_cards = at::detail::getCUDAHooks().getNumGPUs()};
}

std::vector<Device> available_devices(const DiscoveryOptions& options) {
  return available_devices(options, discover_hardware());
}

std::vector<Device> available_devices(const DiscoveryOptions& options, const Hardware& hardware) {
  check_options(options);
  const int cpus = options.logical_cpus.value_or(cpus_that_fit(options, hardware));
  check_subscription(cpus, cpus, options, hardware);
  return all_devices(cpus, options, hardware);
}

std::vector<Device> available_gpus(const DiscoveryOptions& options) {
  check_options(options);
  std::vector<Device> gpus = logical_gpus(options, discover_hardware());
  limit_gpu_memory(gpus);
  return gpus;
}

std::vector<Device> resolve_devices(const std::vector<std::string>& names,
                                    const DiscoveryOptions& options) {
  std::vector<Device> devices = resolve_devices(names, options, discover_hardware());
  limit_gpu_memory(devices);
  return devices;
}

std::vector<Device> resolve_devices(const std::vector<std::string>& names,
                                    const DiscoveryOptions& options, const Hardware& hardware) {
  check_options(options);
  const std::vector<DeviceName> parsed = parse_names(names);
  const std::int64_t cpus = cpus_needed(parsed, options, hardware);
  const auto named = std::count_if(parsed.begin(), parsed.end(), [](const DeviceName& name) {
    return name.type == DeviceType::kCpu;
  });
  if (named > 0) {
    check_subscription(cpus, options.logical_cpus.value_or(static_cast<int>(named)), options,
                       hardware);
  }
  constexpr std::int64_t kMostCpus = 4096;  // a larger index is a typing error
  const std::vector<Device> devices =
      all_devices(static_cast<int>(std::min(cpus, kMostCpus)), options, hardware);
  std::vector<Device> resolved;
  for (const auto& name : parsed) resolved.push_back(find_device(name, devices));
  return resolved;
}

std::string list_devices(const std::vector<Device>& devices) {
  return base::str_cat(existing(DeviceType::kCpu, devices), " and ",
                       existing(DeviceType::kGpu, devices));
}

bool share_a_card(const std::vector<Device>& devices) {
  std::set<int> cards;
  for (const Device& device : devices) {
    if (!device.is_cpu() && !cards.insert(device.torch_device.index()).second) return true;
  }
  return false;
}

}  // namespace brigade::device
