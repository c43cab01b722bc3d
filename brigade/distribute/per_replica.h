#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::distribute {

/// The number of examples of a global batch in each replica's part. Means are exact with it even if
/// the parts are uneven.
struct ExampleCounts {
  std::vector<std::int64_t> local;  ///< [replica]
  std::int64_t global = 0;          ///< their sum

  static ExampleCounts of(std::vector<std::int64_t> local_counts) {
    ExampleCounts counts{.local = std::move(local_counts)};
    for (const std::int64_t count : counts.local) counts.global += count;
    return counts;
  }
};

/// One value per replica. `Strategy::run` returns it; given as an argument to `run`, it passes each
/// replica its own value. It contains the numbers of examples that the replicas had, so that a
/// reduction can leave out replicas without examples. TensorFlow: tf.distribute.DistributedValues.
///
/// Thread-safety: a value.
template <class T>
class PerReplica {
 public:
  /// Makes the value of any replica of all workers, by its index among them.
  using OfAny = std::function<T(int replica)>;

  explicit PerReplica(std::vector<T> values, std::optional<ExampleCounts> examples = std::nullopt,
                      OfAny of_any = nullptr)
      : values_(std::move(values)), examples_(std::move(examples)), of_any_(std::move(of_any)) {
    check_argument(!values_.empty(), "A PerReplica needs a value for each replica.");
  }

  std::size_t size() const { return values_.size(); }
  const T& operator[](std::size_t replica) const { return values_.at(replica); }
  T& operator[](std::size_t replica) { return values_.at(replica); }
  /// All values in replica order. TensorFlow: experimental_local_results.
  const std::vector<T>& values() const { return values_; }

  /// The numbers of examples that the values were computed from; unset if the step had no
  /// distributed batch.
  const std::optional<ExampleCounts>& examples() const { return examples_; }
  /// Whether replica `replica` had no examples, so that its value is meaningless (such as the mean
  /// of no values, which is NaN).
  bool is_empty(std::size_t replica) const {
    return examples_ && examples_->local.at(replica) == 0;
  }
  /// Set for batches of `Strategy::distribute` if gradients are audited
  /// (`MultiWorkerMirroredOptions::audit_every`); empty otherwise.
  const OfAny& of_any() const { return of_any_; }

 private:
  std::vector<T> values_;
  std::optional<ExampleCounts> examples_;
  OfAny of_any_;
};

template <class T>
struct IsPerReplica : std::false_type {};
template <class T>
struct IsPerReplica<PerReplica<T>> : std::true_type {};

}  // namespace brigade::distribute
