#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

namespace brigade::distribute {

/// Tracks a step's gradients as a process's replicas deliver them. When all replicas have delivered
/// a variable's gradient, the last one fills it into its bucket; when all variables of a bucket are
/// filled in, the bucket is complete.
///
/// Thread-safety: `deliver` and `filled` from any thread; writes before a call are visible after
/// the call that returns the result. The rest while no other call is made.
class BucketProgress {
 public:
  explicit BucketProgress(int replicas) : replicas_(replicas) {}

  /// Starts a step: no gradient has been delivered. `bucket_of[variable]` is the variable's bucket;
  /// unset: it is in none.
  void start(const std::vector<std::optional<std::size_t>>& bucket_of, std::size_t num_buckets);
  /// A replica delivers the gradient of `variable`, once per step. Returns whether it is the last
  /// replica, which then fills the variable in.
  bool deliver(std::size_t variable) { return arrived_[variable].fetch_add(1) + 1 == replicas_; }
  /// The variable, for which `deliver` returned true, is filled in. Returns its bucket if that is
  /// now complete.
  std::optional<std::size_t> filled(std::size_t variable);
  /// Which variables have been delivered by all replicas. Not while replicas deliver.
  std::vector<bool> is_filled() const;

 private:
  const int replicas_;
  std::vector<std::optional<std::size_t>> bucket_of_;  // [variable]
  std::vector<std::atomic<int>> arrived_;              // [variable]: replicas that delivered it
  std::vector<std::atomic<int>> missing_;              // [bucket]: variables not filled in yet
};

}  // namespace brigade::distribute
