#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/ambient.h"

namespace brigade::device {

/// The kind of thing to place.
enum class PlacedKind { kVariable, kLayer };
std::string_view to_string(PlacedKind kind);

/// The thing that a device function places.
struct PlacementRequest {
  std::string name;  ///< including its scopes: "tower_0/conv1/Conv2D"
  PlacedKind kind = PlacedKind::kLayer;
  /// A variable's size; unset for layers.
  std::optional<std::int64_t> bytes = std::nullopt;
  /// The choice of the scopes inside this function's scope; empty for none (TensorFlow: op.device).
  std::string inner = {};
  /// The choice of the named outer scopes, without functions; empty for none.
  std::string outer = {};
};

/// Chooses a device for a variable or layer: a name, perhaps partial ("/job:ps/task:1"). The result
/// replaces the choice of the inner scopes, even if it is empty; to keep that choice, return
/// `request.inner` or merge with it (`merge_device_names`). Called once for each variable or layer,
/// on the thread that creates it: by several threads at the same time if towers share the scope.
using DeviceFunction = std::function<std::string(const PlacementRequest&)>;

/// The choice of one `with_device` call. Immutable.
struct DeviceChoice {
  std::string name = {};         ///< of a named scope
  DeviceFunction function = {};  ///< of a scope by function
  bool clears = false;           ///< ignores the outer scopes
};

/// Captured device scopes, which can be opened again elsewhere. A value.
using CapturedDeviceScopes = std::vector<std::shared_ptr<const DeviceChoice>>;  // innermost first

/// A device scope that is open on this thread during the lifetime of this object. Made by
/// `with_device`.
///
/// Thread-safety: ends on the thread that opened it, in the reverse order of opening. Threads that
/// inherited the context (`base::AmbientInstall`) are in the scope too and must finish before it
/// ends.
class [[nodiscard]] DeviceScope {
 public:
  explicit DeviceScope(DeviceFunction function);
  explicit DeviceScope(std::string name);
  explicit DeviceScope(std::nullopt_t clear);
  /// Hides the scopes that are open.
  explicit DeviceScope(CapturedDeviceScopes captured);
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  friend CapturedDeviceScopes current_device_scopes();
  explicit DeviceScope(DeviceChoice choice);
  DeviceScope(CapturedDeviceScopes choices, const DeviceScope* outer);

  CapturedDeviceScopes choices_;
  const DeviceScope* outer_;  // null after captured scopes
  base::AmbientScope<const DeviceScope> opened_;
};

inline constexpr base::AmbientSlot<const DeviceScope> kDeviceScopeSlot{
    base::AmbientIndex::kDeviceStack};

/// While the result is alive, new variables and layers are placed on the device with this name.
/// Names may be partial and in any spelling that `machine::DeviceSpec` accepts ("/job:worker",
/// "gpu:0", "/device:GPU:0"; "" changes nothing); nested names merge field by field, and the inner
/// one takes precedence. Throws kInvalidArgument for a malformed name. TensorFlow: tf.device.
DeviceScope with_device(const std::string& name);
/// Calls `function` for each variable and layer. Scopes are applied from the inside out, as in
/// TensorFlow. An empty function changes nothing.
DeviceScope with_device(DeviceFunction function);
/// Ignores the outer scopes (TensorFlow: tf.device(None)).
DeviceScope with_device(std::nullopt_t clear);

/// The choice of the open scopes for `request` (its `inner` and `outer` are set here): a name in
/// TensorFlow's spelling ("/job:ps/task:1/device:GPU:0"), possibly partial, empty if no scope
/// chooses. Throws kInvalidArgument, naming the variable or layer, if a function's result is
/// malformed.
std::string requested_device(PlacementRequest request);

/// All open scopes that matter: up to one that ignores the outer ones.
CapturedDeviceScopes current_device_scopes();

/// Whether any scope is open on this thread.
bool device_scope_is_open();

/// `inner` over `outer`, field by field (`machine::DeviceSpec::merged_over`), in TensorFlow's
/// spelling: the merge of nested scopes. TensorFlow: DeviceSpec.make_merged_spec.
std::string merge_device_names(const std::string& outer, const std::string& inner);

}  // namespace brigade::device
