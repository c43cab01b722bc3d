#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/base/ambient.h"

namespace brigade::device {

/// What is to be placed.
enum class PlacedKind { kVariable, kLayer };
std::string_view to_string(PlacedKind kind);

/// What a device function is asked: where should this go?
struct PlacementRequest {
  std::string name;  ///< with its scopes: "tower_0/conv1/Conv2D"
  PlacedKind kind = PlacedKind::kLayer;
  /// A variable's size; unset for layers.
  std::optional<std::int64_t> bytes = std::nullopt;
  /// What the scopes inside this function's have chosen; empty for nothing (TensorFlow: op.device).
  std::string inner = {};
  /// What the named scopes outside would choose, functions left out; empty for nothing.
  std::string outer = {};
};

/// Chooses a device for a variable or layer: a name, perhaps partial ("/job:ps/task:1"). The answer
/// takes the place of what the scopes inside have chosen, even if it is empty; a function that
/// would rather keep that returns `request.inner`, or merges with it (`merge_device_names`). Called
/// once for each thing placed, by whichever thread places it: by several at once if towers share
/// the scope.
using DeviceFunction = std::function<std::string(const PlacementRequest&)>;

/// A device scope that is open on this thread as long as this lives. Made by `with_device`.
///
/// Thread-safety: ends on the thread that opened it, in the reverse order of opening. Threads that
/// took over the context (`base::AmbientInstall`) stand in it too and must be done before it ends.
class [[nodiscard]] DeviceScope {
 public:
  explicit DeviceScope(DeviceFunction function);
  explicit DeviceScope(std::string name);
  explicit DeviceScope(std::nullopt_t clear);
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  friend std::string requested_device(PlacementRequest request);
  // What the named scopes choose together, from this one outwards.
  static std::string named_from(const DeviceScope* innermost);

  std::string name_;         // of a named scope
  DeviceFunction function_;  // of a scope by function
  bool clears_ = false;
  const DeviceScope* outer_;
  base::AmbientScope<const DeviceScope> opened_;
};

inline constexpr base::AmbientSlot<const DeviceScope> kDeviceScopeSlot{
    base::AmbientIndex::kDeviceStack};

/// Variables and layers made while the result lives go to the device of this name. Names may be
/// partial and in any spelling that `machine::DeviceSpec` reads ("/job:worker", "gpu:0",
/// "/device:GPU:0"; "" changes nothing); nested ones merge field by field, and the inner one wins.
/// Throws kInvalidArgument for a malformed name. TensorFlow: tf.device.
DeviceScope with_device(const std::string& name);
/// Asks `function` for each variable and layer. Scopes are applied from the inside out, as in
/// TensorFlow. An empty function changes nothing.
DeviceScope with_device(DeviceFunction function);
/// Makes the scopes outside of it count for nothing (TensorFlow: tf.device(None)).
DeviceScope with_device(std::nullopt_t clear);

/// What the open scopes choose for `request` (its `inner` and `outer` are filled in here): a name
/// in TensorFlow's spelling ("/job:ps/task:1/device:GPU:0"), perhaps partial, empty if none has an
/// opinion. Throws kInvalidArgument, naming the thing, if a function's answer is malformed.
std::string requested_device(PlacementRequest request);

/// Whether any scope is open on this thread: without one, nothing needs to be asked.
bool device_scope_is_open();

/// `inner` over `outer`, field by field (`machine::DeviceSpec::merged_over`), in TensorFlow's
/// spelling: the merge of nested scopes. TensorFlow: DeviceSpec.make_merged_spec.
std::string merge_device_names(const std::string& outer, const std::string& inner);

}  // namespace brigade::device
