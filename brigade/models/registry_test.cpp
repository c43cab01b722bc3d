#include "brigade/models/registry.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/variables/graph.h"

namespace brigade::models {
namespace {

/// Two images, each of the size that the model was made for, or none for a model that takes long.
at::Tensor images_for(const std::string& name) {
  std::vector<std::int64_t> shape = image_shape(name);
  shape.insert(shape.begin(), shape.back() > 28 ? 0 : 2);
  return torch::zeros(shape);
}

TEST(Registry, CreatesEveryListedModel) {
  const auto names = model_names();
  EXPECT_TRUE(std::ranges::is_sorted(names));
  for (const auto& name : names) {
    const at::Tensor images = images_for(name);
    const std::vector<std::int64_t> logits = {images.size(0), 7};
    EXPECT_EQ(make_model(name, {.classes = 7})->forward(images).sizes(), logits) << name;
    if (!is_model_function(name)) continue;
    variables::Graph graph;
    const auto opened = graph.as_default();
    const ModelFunction model = make_model_function(name, {.classes = 7});
    EXPECT_EQ(model(images, variables::Mode::kTraining).sizes(), logits) << name;
  }
}

TEST(Registry, KnowsWhichModelsAreFunctions) {
  EXPECT_TRUE(is_model_function("slim_net"));
  EXPECT_FALSE(is_model_function("mlp"));
  EXPECT_THROW(make_model_function("mlp"), Error);
  EXPECT_THROW(make_model_function("slim"), Error);
  EXPECT_THROW(image_shape("slim"), Error);
}

TEST(Registry, AFunctionAsAModuleHasTheVariablesOfTheFunction) {
  const auto module = make_model("slim_net", {.image_shape = {3, 6, 4}});
  EXPECT_EQ(module->named_parameters()["fc1/weights"].sizes(),
            (std::vector<std::int64_t>{256, 64 * 3 * 2}));
  EXPECT_EQ(module->forward(torch::zeros({2, 3, 6, 4})).sizes(),
            (std::vector<std::int64_t>{2, 10}));
}

TEST(Registry, InceptionV3HasTheParametersOfTheOriginalAskedFor) {
  const auto of_slim = make_model("inception_v3", {.image_shape = {3, 75, 75}});
  EXPECT_TRUE(of_slim->named_parameters().contains("InceptionV3/Conv2d_1a_3x3/weights"));
  EXPECT_FALSE(of_slim->named_parameters().contains("InceptionV3/Conv2d_1a_3x3/BatchNorm/gamma"));
  const auto of_torchvision =
      make_model("inception_v3", {.image_shape = {3, 75, 75}, .original = Original::kTorchvision});
  EXPECT_TRUE(
      of_torchvision->named_parameters().contains("InceptionV3/Conv2d_1a_3x3/BatchNorm/gamma"));
  EXPECT_THROW(make_model("inception_v3", {.image_shape = {3, 74, 74}}), Error);
}

TEST(Registry, AnUnknownNameIsRefusedWithTheNearestName) {
  try {
    make_model("mnist_cn");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("did you mean 'mnist_cnn'? Models: "),
              std::string::npos)
        << error.what();
  }
}

TEST(Registry, RefusesImagesOfAnotherSize) {
  EXPECT_THROW(make_model("mnist_cnn", {.inputs = 3072}), Error);
}

}  // namespace
}  // namespace brigade::models
