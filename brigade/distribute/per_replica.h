#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::distribute {

/// How many examples each replica holds of a global batch, so that means can be exact where shares
/// are uneven.
struct ExampleCounts {
  std::vector<std::int64_t> local;  ///< [replica]
  std::int64_t global = 0;          ///< their sum

  static ExampleCounts of(std::vector<std::int64_t> local_counts) {
    ExampleCounts counts{.local = std::move(local_counts)};
    for (const std::int64_t count : counts.local) counts.global += count;
    return counts;
  }
};

/// One value a replica: what `Strategy::run` returns, and what it hands out again, replica by
/// replica, when it is given one as an argument. Remembers the examples that its replicas held, so
/// that a reduction can leave out a replica that held none. TensorFlow:
/// tf.distribute.DistributedValues.
///
/// Thread-safety: a value.
template <class T>
class PerReplica {
 public:
  explicit PerReplica(std::vector<T> values, std::optional<ExampleCounts> examples = std::nullopt)
      : values_(std::move(values)), examples_(std::move(examples)) {
    check_argument(!values_.empty(), "A PerReplica needs a value for each replica.");
  }

  std::size_t size() const { return values_.size(); }
  const T& operator[](std::size_t replica) const { return values_.at(replica); }
  T& operator[](std::size_t replica) { return values_.at(replica); }
  /// All values in replica order. TensorFlow: experimental_local_results.
  const std::vector<T>& values() const { return values_; }

  /// The examples behind the values; unset if the step that made them got no distributed batch.
  const std::optional<ExampleCounts>& examples() const { return examples_; }
  /// Whether replica `replica` had no example: its value means nothing (the mean of none is NaN).
  bool is_empty(std::size_t replica) const {
    return examples_ && examples_->local.at(replica) == 0;
  }

 private:
  std::vector<T> values_;
  std::optional<ExampleCounts> examples_;
};

template <class T>
struct IsPerReplica : std::false_type {};
template <class T>
struct IsPerReplica<PerReplica<T>> : std::true_type {};

}  // namespace brigade::distribute
