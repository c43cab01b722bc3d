#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/indexed_source.h"
#include "brigade/data/core/node.h"

namespace brigade::data::internal {

/// Elements, or their errors, shared by several windows.
template <class T>
using SharedResults = std::vector<std::shared_ptr<const ElementResult<T>>>;

/// The source of a window's dataset: returns copies of the elements and throws the errors.
template <class T>
NodePtr<T> make_window_contents(SharedResults<T> window) {
  const auto size = static_cast<std::int64_t>(window.size());
  auto shared = std::make_shared<const SharedResults<T>>(std::move(window));
  return std::make_shared<const IndexedNode<T>>(
      size,
      [shared](std::int64_t index) -> T {
        const ElementResult<T>& result = *(*shared)[static_cast<std::size_t>(index)];
        if (result.error) std::rethrow_exception(result.error);
        return *result.element;
      },
      base::str_cat("a window of ", size));
}

}  // namespace brigade::data::internal
