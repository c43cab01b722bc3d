#pragma once

#include <cstdint>

namespace brigade::coordination {

/// Decides which records of a server's log may be acknowledged while a replica receives them. One
/// that catches up is not waited for. Once it lacks few records, each further one is acknowledged
/// when the replica has it; and the replica is complete when it has all that were acknowledged
/// without it.
///
/// Thread-safety: one thread at a time; the caller's lock guards it.
class ReplicaProgress {
 public:
  /// The log has a new record. Numbers ascend.
  void append(std::int64_t number) { appended_ = number; }
  /// A replica begins, which has the records up to `after`. Nothing waits for it yet.
  void begin(std::int64_t after);
  /// There is no replica any longer, or it is known to be of no use: nothing waits for it.
  void drop();
  /// The replica has the records up to `number` on its disk. Throws kInvalidArgument for records
  /// that there are not, kFailedPrecondition without a replica. Returns whether it is complete.
  bool acknowledge(std::int64_t number);

  bool has_replica() const { return has_replica_; }
  /// Whether acknowledgments wait for the replica.
  bool is_required() const { return is_required_; }
  bool may_acknowledge(std::int64_t number) const { return !is_required_ || number <= replicated_; }
  std::int64_t appended() const { return appended_; }
  std::int64_t replicated() const { return replicated_; }

 private:
  std::int64_t appended_ = 0;
  std::int64_t replicated_ = 0;
  bool has_replica_ = false;
  bool is_required_ = false;
  std::int64_t required_after_ = 0;  // later records wait for the replica
};

}  // namespace brigade::coordination
