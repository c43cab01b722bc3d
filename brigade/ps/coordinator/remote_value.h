#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/ps/coordinator/function_data.h"

namespace brigade::ps {

/// How far a value of a coordinator's function is.
enum class RemoteValueState {
  kPending,    ///< its function waits or runs
  kAvailable,  ///< its function has returned
  kAborted     ///< its function has failed, or was cancelled
};

/// The result of a function that a ClusterCoordinator has scheduled. The coordinator gets it with
/// the function's end, so it survives its worker. It may outlive the coordinator, which aborts
/// those that are pending when it is destroyed.
///
/// TensorFlow: tf.distribute.coordinator.RemoteValue.
///
/// Thread-safety: all functions from any thread; copies are the same value.
class RemoteValue {
 public:
  RemoteValueState state() const;

  /// Waits until the value is no longer pending, and returns it. Throws what the function has
  /// thrown; kCancelled if it was cancelled, because another one failed or the coordinator ended or
  /// was cancelled; kDeadlineExceeded after `timeout` (unset: it waits until the coordinator ends).
  /// Copies share the tensors.
  FunctionData get(std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;

 private:
  friend class RemoteResult;
  struct Slot;
  explicit RemoteValue(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {}
  std::shared_ptr<Slot> slot_;
};

/// A value as an argument of another function, by name: see `ClusterCoordinator::schedule`.
struct RemoteInput {
  std::string name;
  RemoteValue value;
};

/// The side of a RemoteValue that gives it its value, once.
///
/// Thread-safety: all functions from any thread.
class RemoteResult {
 public:
  /// `owner`: who makes it, to be compared only.
  explicit RemoteResult(const void* owner);
  static const void* owner_of(const RemoteValue& value);
  RemoteValue value() const { return RemoteValue(slot_); }
  void set(FunctionData result);
  void abort(std::exception_ptr error) const;

 private:
  std::shared_ptr<RemoteValue::Slot> slot_;
};

}  // namespace brigade::ps
