#include "brigade/device/autocast_scope.h"

#include <ATen/autocast_mode.h>

#include <cstddef>

namespace brigade::device {

namespace {

constexpr std::array kDeviceTypes = {c10::kCPU, c10::kCUDA};

void install(c10::DeviceType device, bool is_enabled, at::ScalarType dtype) {
  at::autocast::set_autocast_enabled(device, is_enabled);
  at::autocast::set_autocast_dtype(device, dtype);
}

}  // namespace

AutocastState AutocastState::current() {
  AutocastState state;
  for (std::size_t i = 0; i < kDeviceTypes.size(); ++i) {
    state.devices_[i] = {.is_enabled = at::autocast::is_autocast_enabled(kDeviceTypes[i]),
                         .dtype = at::autocast::get_autocast_dtype(kDeviceTypes[i])};
  }
  return state;
}

AutocastState AutocastState::of(Precision precision) {
  AutocastState state;
  for (OfDevice& device : state.devices_) {
    device = {.is_enabled = precision != Precision::kFull,
              .dtype = precision == Precision::kFp16 ? at::kHalf : at::kBFloat16};
  }
  return state;
}

std::optional<at::ScalarType> AutocastState::dtype(c10::DeviceType device) const {
  for (std::size_t i = 0; i < kDeviceTypes.size(); ++i) {
    if (kDeviceTypes[i] == device && devices_[i].is_enabled) return devices_[i].dtype;
  }
  return std::nullopt;
}

AutocastScope::AutocastScope(const AutocastState& state)
    : before_(AutocastState::current()), had_cache_(at::autocast::is_autocast_cache_enabled()) {
  for (std::size_t i = 0; i < kDeviceTypes.size(); ++i)
    install(kDeviceTypes[i], state.devices_[i].is_enabled, state.devices_[i].dtype);
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastScope::~AutocastScope() {
  for (std::size_t i = 0; i < kDeviceTypes.size(); ++i)
    install(kDeviceTypes[i], before_.devices_[i].is_enabled, before_.devices_[i].dtype);
  at::autocast::set_autocast_cache_enabled(had_cache_);
}

at::ScalarType variable_dtype(const at::Tensor& activation) {
  const at::ScalarType dtype = activation.scalar_type();
  if (!at::isReducedFloatingType(dtype)) return dtype;
  const bool is_cast = at::autocast::is_autocast_enabled(activation.device().type()) &&
                       at::autocast::get_autocast_dtype(activation.device().type()) == dtype;
  return is_cast ? at::kFloat : dtype;
}

at::Tensor uncast(const at::Tensor& activation) {
  if (!activation.defined()) return activation;
  const at::ScalarType dtype = variable_dtype(activation);
  return activation.scalar_type() == dtype ? activation : activation.to(dtype);
}

void clear_autocast_cache() {
  at::autocast::clear_cache();
}

}  // namespace brigade::device
