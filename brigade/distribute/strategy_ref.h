#pragma once

#include <string>
#include <string_view>

namespace brigade::distribute {

class ReplicaContext;
class Strategy;

/// The strategy that a model or an optimizer belongs to. Replicas of another strategy refuse the
/// model or optimizer: they may have other devices, and their runs would not check it.
///
/// Thread-safety: immutable.
class StrategyRef {
 public:
  explicit StrategyRef(const Strategy& strategy);

  /// "mirrored (cpu:0, cpu:1)".
  const std::string& description() const { return description_; }
  /// Throws kFailedPrecondition, naming both strategies, unless `context` belongs to a replica of
  /// this strategy. `what` is the start of the message: "A model".
  void check(const ReplicaContext& context, std::string_view what) const;

 private:
  const Strategy* strategy_;  // only compared: it may have been destroyed
  std::string description_;
};

}  // namespace brigade::distribute
