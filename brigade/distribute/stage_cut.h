#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::distribute {

/// Follows the micro-batches of a pipeline through the layers of a model, and knows where its
/// stages begin. Checks that the model has the layers of the cut, in their order.
///
/// Thread-safety: each replica from its own thread.
class StageCut {
 public:
  /// `layers`: [stage - 1], the names of the layers with which the stages after the first begin.
  StageCut(std::vector<std::string> layers, int micro_batches);

  int last_stage() const { return static_cast<int>(layers_.size()); }
  bool is_in_backward(int replica) const { return passes_[index(replica)].is_in_backward; }

  /// A layer begins. Returns the stage that begins with it, if one does. In backward, where layers
  /// may be computed again, none does. Throws kInvalidArgument if the names of the cut are not in
  /// the order of the layers, or if the first one is the model's first layer.
  std::optional<int> begin_layer(int replica, std::string_view name);
  /// Throws kInvalidArgument, naming the nearest layer, if a layer of the cut has not begun.
  void check_is_complete(int replica);
  /// Throws as `check_is_complete`.
  void begin_backward(int replica);
  void end_backward(int replica) noexcept { passes_[index(replica)].is_in_backward = false; }

 private:
  /// The forward pass of one micro-batch. Its thread's alone.
  struct alignas(64) MicroBatchPass {
    int stage = 0;
    bool is_in_backward = false;      // what is computed again there stays on its stage
    std::vector<std::string> layers;  // that began, until one pass has reached the last stage
  };

  static std::size_t index(int replica) { return static_cast<std::size_t>(replica); }
  void check_move(MicroBatchPass& pass, int stage) const;
  Error not_reached(const MicroBatchPass& pass) const;

  const std::vector<std::string> layers_;
  std::vector<MicroBatchPass> passes_;     // [replica]
  std::atomic<bool> is_verified_ = false;  // a pass has reached the last stage
};

}  // namespace brigade::distribute
