#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

namespace brigade::distribute {

/// Counts a step's gradients as a process's replicas deliver them: when the last replica has
/// delivered a variable, it is there; when all of a pack's are filled in, the pack is complete.
///
/// Thread-safety: `deliver` and `filled` from any thread, and what came before them is visible
/// behind the one that answers; the rest while no other call is made.
class BucketProgress {
 public:
  explicit BucketProgress(int replicas) : replicas_(replicas) {}

  /// Another step: no variable is there. `bucket_of` by variable; unset: it travels in none.
  void start(const std::vector<std::optional<std::size_t>>& bucket_of, std::size_t num_buckets);
  /// A replica has variable `variable`, once a step. Returns whether it is the last one: it fills
  /// the variable in.
  bool deliver(std::size_t variable) { return arrived_[variable].fetch_add(1) + 1 == replicas_; }
  /// The variable, of which `deliver` returned true, is filled in. Returns the pack that is
  /// complete by that, if one is.
  std::optional<std::size_t> filled(std::size_t variable);
  /// Which variables are filled in. Not while replicas deliver.
  std::vector<bool> is_filled() const;

 private:
  const int replicas_;
  std::vector<std::optional<std::size_t>> bucket_of_;  // [variable]
  std::vector<std::atomic<int>> arrived_;            // [variable]: replicas that have it
  std::vector<std::atomic<int>> missing_;            // [pack]: variables that are not filled in
};

}  // namespace brigade::distribute
