#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/distribute/pipeline/stage_devices.h"

namespace brigade::distribute {

/// Where the stages of a pipeline begin.
struct StageStarts {
  /// [stage - 1]: the layers with which the stages after the first begin.
  std::vector<std::string> layers;
  /// Unset if these layers were named, or chosen. Otherwise the model says where its stages begin:
  /// by layers that are called `stage_layer`, or by device scopes, which name these devices.
  std::optional<StageDevices> devices = std::nullopt;

  static StageStarts of_model(StageDevices devices);
};

/// The name of the layer with which stage `stage` of a model begins that has a module for each
/// stage. No other layer has it, since names of modules have no dots.
std::string stage_layer(int stage);

/// Follows the micro-batches of a pipeline through the layers of a model, and knows where its
/// stages begin. Checks that the model has the layers of the cut, in their order.
///
/// Thread-safety: each replica from its own thread.
class StageCut {
 public:
  StageCut(StageStarts starts, int micro_batches);

  int last_stage() const { return static_cast<int>(starts_.layers.size()); }
  bool is_in_backward(int replica) const { return passes_[index(replica)].is_in_backward; }

  /// Whether the model says where its stages begin.
  bool is_of_model() const { return starts_.devices.has_value(); }

  /// A layer begins. Returns the stage that begins with it, if one does. In backward, where layers
  /// may be computed again, none does. Throws kInvalidArgument if the names of the cut are not in
  /// the order of the layers, or if the first one is the model's first layer.
  std::optional<int> begin_layer(int replica, std::string_view name);
  /// A layer begins for which device scopes have chosen `device`. Returns the stage
  /// that begins with it, if one does. Throws as StageDevices::choice, and kInvalidArgument for the
  /// device of an earlier stage, or of one after the next, and if the cut was named as well.
  std::optional<int> place_layer(int replica, std::string_view name, const std::string& device);
  /// A step begins, after which micro-batches are before the first stage.
  void begin_step();
  /// The model's layers are done: the next ones may begin another pass.
  void end_layers(int replica) { passes_[index(replica)].has_ended = true; }
  /// Throws kInvalidArgument, naming the nearest layer, if a layer of the cut has not begun.
  void check_is_complete(int replica);
  /// Throws as `check_is_complete`.
  void begin_backward(int replica);
  void end_backward(int replica) noexcept {
    passes_[index(replica)].is_in_backward = false;
    passes_[index(replica)].has_ended = true;
  }

 private:
  /// The forward pass of one micro-batch. Its thread's alone.
  struct alignas(64) MicroBatchPass {
    int stage = 0;
    bool is_in_backward = false;      // what is computed again there stays on its stage
    bool has_ended = false;           // the model's layers are done
    std::vector<std::string> layers;  // that began, until one pass has reached the last stage
  };

  static std::size_t index(int replica) { return static_cast<std::size_t>(replica); }
  void check_move(MicroBatchPass& pass, int stage) const;
  void refuse_scope_beside_cut(std::string_view name, const std::string& device) const;
  [[noreturn]] void refuse_order(const MicroBatchPass& pass, std::string_view name,
                                 const std::string& device) const;
  Error not_reached(const MicroBatchPass& pass) const;

  const StageStarts starts_;
  std::vector<MicroBatchPass> passes_;     // [replica]
  std::atomic<bool> is_verified_ = false;  // a pass has reached the last stage
};

}  // namespace brigade::distribute
