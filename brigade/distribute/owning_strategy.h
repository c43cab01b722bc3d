#pragma once

#include <string>
#include <string_view>

namespace brigade::distribute {

class ReplicaContext;
class Strategy;

/// Which strategy a model or an optimizer belongs to, so that another's replicas refuse it: they
/// may have other devices, and their runs do not look after what is not their strategy's.
///
/// Thread-safety: constant once it is made.
class OwningStrategy {
 public:
  explicit OwningStrategy(const Strategy& strategy);

  /// "mirrored (cpu:0, cpu:1)".
  const std::string& description() const { return description_; }
  /// Throws kFailedPrecondition, naming both strategies, unless `context` is of a replica of this
  /// one. `what` begins the message: "A model".
  void check(const ReplicaContext& context, std::string_view what) const;

 private:
  const Strategy* strategy_;  // compared, never followed: it may be gone
  std::string description_;
};

}  // namespace brigade::distribute
