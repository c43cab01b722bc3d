#include "brigade/device/device_scope.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/machine/device_spec.h"

namespace brigade::device {
namespace {

using machine::DeviceSpec;

std::string canonical(const std::string& name) {
  return DeviceSpec::parse(name).to_string();
}

std::string ask(const DeviceFunction& function, const PlacementRequest& request) {
  const std::string answer = function(request);
  try {
    return canonical(answer);
  } catch (const Error& error) {
    throw Error(error.code(), base::str_cat("The device function's result for ", request.kind, " ",
                                            request.name, " cannot be used: ", error.what()));
  }
}

}  // namespace

std::string_view to_string(PlacedKind kind) {
  return kind == PlacedKind::kVariable ? "variable" : "layer";
}

DeviceScope::DeviceScope(DeviceFunction function)
    : function_(std::move(function)),
      outer_(kDeviceScopeSlot.get()),
      opened_(kDeviceScopeSlot, this) {}

DeviceScope::DeviceScope(std::string name)
    : name_(canonical(name)), outer_(kDeviceScopeSlot.get()), opened_(kDeviceScopeSlot, this) {}

DeviceScope::DeviceScope(std::nullopt_t)
    : clears_(true), outer_(kDeviceScopeSlot.get()), opened_(kDeviceScopeSlot, this) {}

std::string DeviceScope::named_from(const DeviceScope* innermost) {
  std::string names;
  for (const DeviceScope* scope = innermost; scope && !scope->clears_; scope = scope->outer_)
    names = merge_device_names(scope->name_, names);
  return names;
}

DeviceScope with_device(const std::string& name) {
  return DeviceScope(name);
}
DeviceScope with_device(DeviceFunction function) {
  return DeviceScope(std::move(function));
}
DeviceScope with_device(std::nullopt_t clear) {
  return DeviceScope(clear);
}

std::string requested_device(PlacementRequest request) {
  request.inner.clear();
  for (const DeviceScope* scope = kDeviceScopeSlot.get(); scope && !scope->clears_;
       scope = scope->outer_) {
    if (scope->function_) {
      request.outer = DeviceScope::named_from(scope->outer_);
      request.inner = ask(scope->function_, request);
    } else {
      request.inner = merge_device_names(scope->name_, request.inner);
    }
  }
  return request.inner;
}

bool device_scope_is_open() {
  return kDeviceScopeSlot.get() != nullptr;
}

std::string merge_device_names(const std::string& outer, const std::string& inner) {
  return DeviceSpec::parse(inner).merged_over(DeviceSpec::parse(outer)).to_string();
}

}  // namespace brigade::device
