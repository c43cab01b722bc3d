#include "brigade/variables/layer_value.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "brigade/device/device_scope.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/graph.h"

namespace brigade::variables {
namespace {

using Names = std::vector<std::string>;

TEST(LayerValue, IsTheVariableItselfOnItsDevice) {
  Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor value = get_value("w", {{2}});
  EXPECT_TRUE(value.is_same(graph.store().find("w")->component(0)));
  get_variable_scope().reuse_variables();
  EXPECT_TRUE(get_value("w", {{2}}, {}, c10::Device(c10::kCPU)).is_same(value));
  EXPECT_TRUE(get_value("w", {{2}}, {.caching_device = "cpu:0"}).is_same(value));
}

TEST(LayerValue, IsCopiedOncePerDeviceAndChange) {
  Graph graph;
  const auto opened = graph.as_default();
  const Variable w = get_variable("w", {{2}});
  get_variable_scope().reuse_variables();
  const c10::Device away(c10::kMeta);
  const at::Tensor copy = get_value("w", {{2}}, {}, away);
  EXPECT_EQ(copy.device(), away);
  EXPECT_TRUE(copy.requires_grad());
  EXPECT_TRUE(get_value("w", {{2}}, {}, away).is_same(copy));
  w.assign(at::ones({2}));
  EXPECT_FALSE(get_value("w", {{2}}, {}, away).is_same(copy));
}

TEST(LayerValue, UsesTheScopesToPlaceALayer) {
  Graph graph;
  const auto opened = graph.as_default();
  EXPECT_FALSE(layer_device("conv1/Conv2D"));
  Names asked;
  const auto scope = device::with_device([&](const device::PlacementRequest& request) {
    asked.push_back(request.name + " " + std::string(to_string(request.kind)));
    return std::string("/cpu:0");
  });
  EXPECT_EQ(layer_device("conv1/Conv2D"), c10::Device(c10::kCPU));
  const at::Tensor input = at::ones({1});
  EXPECT_TRUE(place_layer("conv1/Relu", input).is_same(input));
  EXPECT_EQ(asked, (Names{"conv1/Conv2D layer", "conv1/Relu layer"}));
}

TEST(LayerValue, LeavesLayersWhereTheyAreWithoutAGraphOrAChoice) {
  const at::Tensor input = at::ones({1});
  EXPECT_TRUE(place_layer("a", input).is_same(input));
  Graph graph;
  const auto opened = graph.as_default();
  EXPECT_TRUE(place_layer("a", input).is_same(input));
  const auto scope =
      device::with_device([](const device::PlacementRequest&) { return std::string(); });
  EXPECT_TRUE(place_layer("a", input).is_same(input));
}

TEST(LayerValue, LogsEachLayerOnce) {
  auto placer = std::make_shared<device::Placer>(
      device::PlacementOptions{.log = true, .sink = [](std::string_view) {}},
      std::vector<device::Device>{device::Device{}});
  for (int pass = 0; pass < 2; ++pass) {
    Graph graph(GraphOptions{.placer = placer});
    const auto opened = graph.as_default();
    place_layer("conv1/Conv2D", at::ones({1}));
    const auto scope = device::with_device("cpu:0");
    place_layer("conv2/Conv2D", at::ones({1}));
  }
  EXPECT_EQ(placer->lines(),
            (Names{"conv1/Conv2D: (layer): cpu:0", "conv2/Conv2D: (layer): cpu:0"}));
}

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
