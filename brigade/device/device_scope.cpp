#include "brigade/device/device_scope.h"

#include <cstddef>
#include <span>
#include <utility>

#include "brigade/base/error.h"
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
    throw Error(error.code(), "The device function's result for ", request.kind, " ", request.name,
                " cannot be used: ", error.what());
  }
}

/// The merged choice of the named scopes.
std::string named_in(std::span<const std::shared_ptr<const DeviceChoice>> scopes) {
  std::string names;
  for (const auto& scope : scopes) {
    if (scope->clears) break;
    names = merge_device_names(scope->name, names);
  }
  return names;
}

}  // namespace

std::string_view to_string(PlacedKind kind) {
  return kind == PlacedKind::kVariable ? "variable" : "layer";
}

DeviceScope::DeviceScope(DeviceChoice choice)
    : DeviceScope({std::make_shared<const DeviceChoice>(std::move(choice))},
                  kDeviceScopeSlot.get()) {}

DeviceScope::DeviceScope(DeviceFunction function)
    : DeviceScope(DeviceChoice{.function = std::move(function)}) {}

DeviceScope::DeviceScope(std::string name) : DeviceScope(DeviceChoice{.name = canonical(name)}) {}

DeviceScope::DeviceScope(std::nullopt_t) : DeviceScope(DeviceChoice{.clears = true}) {}

DeviceScope::DeviceScope(CapturedDeviceScopes captured)
    : DeviceScope(std::move(captured), nullptr) {}

DeviceScope::DeviceScope(CapturedDeviceScopes choices, const DeviceScope* outer)
    : choices_(std::move(choices)), outer_(outer), opened_(kDeviceScopeSlot, this) {}

CapturedDeviceScopes current_device_scopes() {
  CapturedDeviceScopes captured;
  for (const DeviceScope* scope = kDeviceScopeSlot.get(); scope; scope = scope->outer_) {
    for (const auto& choice : scope->choices_) {
      captured.push_back(choice);
      if (choice->clears) return captured;
    }
  }
  return captured;
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
  if (!device_scope_is_open()) return request.inner;
  const CapturedDeviceScopes scopes = current_device_scopes();
  for (std::size_t i = 0; i < scopes.size() && !scopes[i]->clears; ++i) {
    if (scopes[i]->function) {
      request.outer = named_in(std::span(scopes).subspan(i + 1));
      request.inner = ask(scopes[i]->function, request);
    } else {
      request.inner = merge_device_names(scopes[i]->name, request.inner);
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
