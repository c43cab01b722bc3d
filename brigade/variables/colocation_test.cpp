#include "brigade/variables/colocation.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "brigade/variables/get_variable.h"
#include "brigade/variables/graph.h"

namespace brigade::variables {
namespace {

TEST(Colocation, PlacesNewVariablesOnTheVariablesDevice) {
  const auto placer = std::make_shared<device::Placer>(
      device::PlacementOptions{.log = true, .sink = [](std::string_view) {}});
  Graph graph({.placer = placer});
  const auto opened = graph.as_default();
  const Variable table = get_variable("table", {{4, 2}});
  const auto elsewhere = device::with_device("gpu:7");
  {
    const auto scope = colocate_with(table);
    get_variable("index", {{4}});
    const auto inner = device::with_device("gpu:7");
    EXPECT_EQ(device::requested_device({.name = "x", .kind = device::PlacedKind::kLayer}),
              device::merge_device_names("", "gpu:7"));
  }
  EXPECT_EQ(placer->lines().back().substr(0, 24), "index: (variable): cpu:0");
}

}  // namespace
}  // namespace brigade::variables
