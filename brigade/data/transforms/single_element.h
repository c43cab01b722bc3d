#pragma once

#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/iterator.h"

namespace brigade::data {

namespace internal {

[[noreturn]] void throw_no_element(const std::string& dataset);
[[noreturn]] void throw_more_than_one_element(const std::string& dataset);

}  // namespace internal

/// See `Dataset::get_single_element`.
template <class T>
T single_element_of(const NodePtr<T>& node, const IteratorOptions& options) {
  Iterator<T> iterator(node, options);
  std::optional<T> element = iterator.next();
  if (!element) internal::throw_no_element(node->describe());
  if (iterator.next()) internal::throw_more_than_one_element(node->describe());
  return std::move(*element);
}

}  // namespace brigade::data
