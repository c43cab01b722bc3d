#include "brigade/machine/device_name.h"

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/machine/device_spec.h"

namespace brigade::machine {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument, base::quoted(text),
              " is not the name of one device: ", why, ". ", kDeviceSpellings);
}

}  // namespace

std::string_view to_string(DeviceType type) {
  return type == DeviceType::kCpu ? "cpu" : "gpu";
}

DeviceName DeviceName::parse(std::string_view text) {
  const DeviceSpec spec = DeviceSpec::parse(text);
  if (spec == DeviceSpec{}) refuse(text, "it is empty");
  if (!spec.type) refuse(text, "it names no device");
  const bool is_path = base::trim(text).front() == '/';
  if (!spec.index && (is_path || text.find(':') != std::string_view::npos))
    refuse(text, "the device has no index");
  return {.job = spec.job,
          .replica = spec.replica,
          .task = spec.task,
          .type = *spec.type,
          .index = spec.index.value_or(0)};
}

std::string DeviceName::to_string() const {
  const std::string device = base::str_cat(machine::to_string(type), ":", index);
  if (!is_remote()) return device;
  return base::str_cat(DeviceSpec{.job = job, .replica = replica, .task = task}.to_string(), "/",
                       device);
}

std::string DeviceName::tensorflow_name() const {
  DeviceSpec full{.type = type, .index = index};
  if (is_remote()) {
    full.job = job.value_or("localhost");
    full.replica = replica.value_or(0);
    full.task = task.value_or(0);
  }
  return full.to_string();
}

}  // namespace brigade::machine
