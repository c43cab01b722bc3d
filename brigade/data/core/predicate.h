#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "brigade/data/transforms/map.h"

namespace brigade::data::internal {

/// A user's predicate on elements (filter, take_while); its errors name the step and the element.
///
/// Thread-safety: as the function.
template <class F>
struct Predicate {
  std::shared_ptr<const F> function;
  std::string where;
  std::uint64_t epoch;

  /// Whether it holds for `element`; `index` is counted from the start of the epoch.
  template <class T>
  bool operator()(const T& element, std::uint64_t index) const {
    try {
      return (*function)(element);
    } catch (...) {
      rethrow_at_element(where, epoch, index);
    }
  }
};

}  // namespace brigade::data::internal
