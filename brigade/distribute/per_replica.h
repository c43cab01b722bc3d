#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
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

namespace internal {

/// What one replica gets of an argument of `Strategy::run`.
template <class T>
const T& component(const T& value, int) {
  return value;
}
template <class T>
const T& component(const PerReplica<T>& value, int replica) {
  return value[static_cast<std::size_t>(replica)];
}
/// Whether there is a value for each of so many replicas.
template <class T>
bool has_replicas(const T&, int) {
  return true;
}
template <class T>
bool has_replicas(const PerReplica<T>& value, int replicas) {
  return value.size() == static_cast<std::size_t>(replicas);
}
template <class T>
using Component = std::remove_cvref_t<decltype(component(std::declval<const T&>(), 0))>;

/// The example counts of the first argument that has any.
template <class T>
std::optional<ExampleCounts> examples_of(const T& value) {
  if constexpr (IsPerReplica<T>::value) return value.examples();
  return std::nullopt;
}
inline std::optional<ExampleCounts> first_examples() {
  return std::nullopt;
}
template <class First, class... Rest>
std::optional<ExampleCounts> first_examples(const First& first, const Rest&... rest) {
  if (auto found = examples_of(first)) return found;
  return first_examples(rest...);
}

}  // namespace internal

}  // namespace brigade::distribute
