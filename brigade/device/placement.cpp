#include "brigade/device/placement.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/machine/device_spec.h"

namespace brigade::device {
namespace {

using machine::DeviceName;
using machine::DeviceType;

DeviceName first_cpu() {
  return {.type = DeviceType::kCpu, .index = 0};
}

auto find(const std::vector<Device>& devices, const DeviceName& name) {
  return std::find_if(devices.begin(), devices.end(),
                      [&](const Device& device) { return device.name == name; });
}

std::vector<Device> with_first_cpu(std::vector<Device> devices) {
  if (find(devices, first_cpu()) == devices.end()) devices.insert(devices.begin(), Device{});
  return devices;
}

// The device of this process for a possibly partial name.
DeviceName local_name(const std::string& name) {
  const auto spec = machine::DeviceSpec::parse(name);
  if (!spec.type) return first_cpu();
  return {.type = *spec.type, .index = spec.index.value_or(0)};
}

}  // namespace

Placer::Placer(PlacementOptions options) : Placer(std::move(options), available_devices()) {}

Placer::Placer(PlacementOptions options, std::vector<Device> devices,
               NameWithoutDevice without_device)
    : options_(std::move(options)),
      devices_(with_first_cpu(std::move(devices))),
      without_device_(without_device) {}

std::optional<Device> Placer::place(const PlacementRequest& request) {
  if (!device_scope_is_open()) return std::nullopt;
  const std::string name = requested_device(request);
  if (name.empty()) return std::nullopt;
  const bool has_device = machine::DeviceSpec::parse(name).type.has_value();
  if (!has_device && without_device_ == NameWithoutDevice::kNoChoice) return std::nullopt;
  const Device& device = find_or_fall_back(
      name, base::str_cat(", where the ", request.kind, " ", request.name, " was to go"));
  record(request.kind, request.name, device.name.to_string());
  return device;
}

Device Placer::resolve(const std::string& name) {
  return find_or_fall_back(name, "");
}

const Device& Placer::find_or_fall_back(const std::string& name, std::string_view what) {
  const DeviceName wanted = local_name(name);
  const auto found = find(devices_, wanted);
  if (found != devices_.end()) return *found;
  if (options_.missing == MissingDevice::kRefuse) {
    throw Error(ErrorCode::kNotFound, "There is no device ", wanted.to_string(), " here", what,
                "; there are ", list_devices(devices_), ".");
  }
  warn_of_fall_back(wanted.to_string());
  return *find(devices_, first_cpu());
}

void Placer::warn_of_fall_back(const std::string& missing) {
  {
    const concurrency::MutexLock lock(mutex_);
    if (!fallen_back_.insert(missing).second) return;
  }
  base::log_warning("There is no device ", missing, " here; using ", first_cpu().to_string(),
                    ". There are ", list_devices(devices_), ".");
}

void Placer::record(PlacedKind kind, const std::string& name, const std::string& device) {
  if (!logs()) return;
  // Held while writing, so that `lines()` has the order in which the sink got them.
  const concurrency::MutexLock lock(mutex_);
  if (!recorded_.emplace(kind, name).second) return;
  lines_.push_back(base::str_cat(name, ": (", kind, "): ", device));
  if (options_.sink) {
    options_.sink(lines_.back());
  } else {
    base::log_info(lines_.back());
  }
}

std::vector<std::string> Placer::lines() const {
  const concurrency::MutexLock lock(mutex_);
  return lines_;
}

}  // namespace brigade::device
