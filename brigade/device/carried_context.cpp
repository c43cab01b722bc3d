#include "brigade/device/carried_context.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "brigade/base/error.h"

namespace brigade::device {

namespace {

// One of the kinds that libtorch has and does not use itself.
constexpr c10::DebugInfoKind kCarriedKind = c10::DebugInfoKind::INFERENCE_CONTEXT;

}  // namespace

class CarriedContext::Info final : public c10::DebugInfoBase {
 public:
  const base::Ambient context = base::ambient();
  const std::thread::id owner = std::this_thread::get_id();
  std::atomic<bool> is_open = true;
};

CarriedContext::CarriedContext() : info_(std::make_shared<Info>()), guard_(kCarriedKind, info_) {}

CarriedContext::~CarriedContext() {
  info_->is_open = false;
}

// The rule by which autograd's engine starts threads.
bool autograd_has_threads() {
  return std::ranges::any_of(c10::impl::device_guard_impl_registry, [](const auto& registered) {
    const c10::impl::DeviceGuardImplInterface* const devices = registered.load();
    if (devices == nullptr) return false;
    const c10::DeviceType type = devices->type();
    const bool runs_on_caller = type == c10::kCPU || type == c10::kMeta || type == c10::kLazy;
    return !runs_on_caller && devices->deviceCount() > 0;
  });
}

const void* carried_value(base::AmbientIndex index) {
  const c10::DebugInfoBase* const found = c10::ThreadLocalDebugInfo::get(kCarriedKind);
  if (found == nullptr) return nullptr;
  const auto* const info = dynamic_cast<const CarriedContext::Info*>(found);
  // The owner's thread has its own context, in which null hides an outer value.
  if (info == nullptr || info->owner == std::this_thread::get_id()) return nullptr;
  check_state(info->is_open,
              "A hook or backward function of a replica runs after the replica's step has ended.");
  return info->context.slots[static_cast<std::size_t>(index)];
}

}  // namespace brigade::device
