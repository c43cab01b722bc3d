#include "brigade/models/torchvision_names.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "brigade/base/error.h"
#include "brigade/layers/arg_scope.h"
#include "brigade/models/inception_v3.h"
#include "brigade/models/resnet.h"
#include "brigade/models/testing/pattern_weights.h"
#include "brigade/models/testing/variable_names.h"

namespace brigade::models {
namespace {

TEST(TorchvisionNames, AreOfAllVariablesOfInceptionV3) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto defaults = layers::arg_scope(inception_v3_arg_scope({.batch_norm_scale = true}));
  inception_v3(at::zeros({0, 3, 299, 299}), {.min_depth = 1, .depth_multiplier = 1e-3});
  const auto names = torchvision_names("inception_v3");
  EXPECT_EQ(names.size(), variable_names().size());
  for (const std::string& name : variable_names()) EXPECT_TRUE(names.contains(name)) << name;
}

TEST(TorchvisionNames, AreOfAllVariablesOfResNets) {
  for (const int depth : {18, 34, 50, 101, 152}) {
    variables::Graph graph;
    const auto opened = graph.as_default();
    resnet(at::zeros({0, 3, 32, 32}), {.depth = depth, .depth_multiplier = 1.0 / 64});
    const auto names = torchvision_names("resnet" + std::to_string(depth));
    EXPECT_EQ(names.size(), variable_names().size());
    for (const std::string& name : variable_names()) EXPECT_TRUE(names.contains(name)) << name;
  }
}

struct NamesCase {
  std::string model;
  std::size_t count;
  std::uint64_t hash;
};

// The hash is that of the names of torchvision 0.26, sorted, with newlines between them:
// pattern_weights._hash("\n".join(sorted(name for name in model.state_dict() if "num_batches" not
// in name))).
TEST(TorchvisionNames, AreThoseOfTorchvision) {
  for (const auto& [model, count, hash] : {NamesCase{"inception_v3", 484, 2056510740543158089U},
                                           NamesCase{"resnet18", 102, 17835464195937052909U},
                                           NamesCase{"resnet34", 182, 3335719546364727773U},
                                           NamesCase{"resnet50", 267, 1843251195512739790U},
                                           NamesCase{"resnet101", 522, 4549901878431324957U},
                                           NamesCase{"resnet152", 777, 3675718066404628715U}}) {
    std::set<std::string> theirs;
    for (const auto& [ours, name] : torchvision_names(model)) theirs.insert(name);
    EXPECT_EQ(theirs.size(), count) << model << ": a name occurs twice, or is missing";
    std::string lines;
    for (const std::string& name : theirs) lines += (lines.empty() ? "" : "\n") + name;
    EXPECT_EQ(pattern_internal::hash(lines), hash) << model;
  }
  EXPECT_EQ(torchvision_models().size(), 6u);
}

TEST(TorchvisionNames, OfAnUnknownModelAreRefused) {
  try {
    torchvision_names("inception_v4");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("inception_v3"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace brigade::models
