#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/device/placement.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/graph.h"

namespace brigade::models {

/// For tests: the names of the current graph's variables, in the order of their creation.
inline std::vector<std::string> variable_names() {
  std::vector<std::string> names;
  for (const auto& variable : variables::global_variables()) names.push_back(variable.name());
  return names;
}

/// For tests: a placer that records placements, and logs nothing.
inline std::shared_ptr<device::Placer> silent_placer() {
  return std::make_shared<device::Placer>(
      device::PlacementOptions{.log = true, .sink = [](std::string_view) {}});
}

/// For tests: the operations that were placed, as named in the log, in order.
inline std::vector<std::string> operation_names(const device::Placer& placer) {
  std::vector<std::string> names;
  for (const std::string& line : placer.lines()) {
    const auto end = line.find(": (layer)");
    if (end != std::string::npos) names.push_back(line.substr(0, end));
  }
  return names;
}

}  // namespace brigade::models
