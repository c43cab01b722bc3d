#pragma once

#include <cstdint>
#include <map>

namespace brigade::distribute {

/// How stale the updates of a worker were that trains with others without collectives (parameter
/// servers): an update of staleness 3 came after 3 updates of other workers that its gradients do
/// not know.
///
/// Thread-safety: a value.
struct UpdateStaleness {
  /// [staleness]: how many updates had it.
  std::map<std::int64_t, std::int64_t> updates;

  void count(std::int64_t staleness) { ++updates[staleness]; }
  /// How many updates.
  std::int64_t total() const;
  /// Of their staleness; 0 if there are none.
  double mean() const;
  std::int64_t max() const;
  /// The updates that `earlier`, a copy of this from before, does not have.
  UpdateStaleness since(const UpdateStaleness& earlier) const;

  friend bool operator==(const UpdateStaleness&, const UpdateStaleness&) = default;
};

}  // namespace brigade::distribute
