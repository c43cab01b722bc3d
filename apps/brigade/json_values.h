#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/brigade/report.h"

namespace brigade::command {

/// For a key that may have no value.
template <class T>
Json number_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace brigade::command
