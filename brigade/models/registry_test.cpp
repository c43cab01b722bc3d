#include "brigade/models/registry.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::models {
namespace {

/// Whether a test can afford to compute with the model, and to draw its weights.
bool is_small(const std::string& name) {
  return image_shape(name).back() <= 32;
}

/// Two images of the size that the model was made for, or none.
at::Tensor images_for(const std::string& name) {
  std::vector<std::int64_t> shape = image_shape(name);
  shape.insert(shape.begin(), is_small(name) ? 2 : 0);
  return torch::zeros(shape);
}

TEST(Registry, CreatesEveryListedModel) {
  const auto names = model_names();
  EXPECT_TRUE(std::ranges::is_sorted(names));
  for (const auto& name : names) {
    if (!is_small(name)) continue;
    EXPECT_EQ(make_model(name, {.classes = 7})->forward(images_for(name)).sizes(),
              (std::vector<std::int64_t>{2, 7}))
        << name;
  }
}

TEST(Registry, MakesEveryListedFunction) {
  const auto zeros = [](const variables::VariableGetter& getter,
                        variables::GetVariableRequest request) {
    request.options.initializer = variables::zeros_initializer();
    return getter(request);
  };
  for (const auto& name : model_names()) {
    if (!is_model_function(name)) continue;
    const at::Tensor images = images_for(name);
    const ModelFunction model = make_model_function(name, {.classes = 7});
    variables::Graph graph;
    const auto opened = graph.as_default();
    const auto scope = variables::variable_scope("scope", {.custom_getter = zeros});
    EXPECT_EQ(model(images, variables::Mode::kTraining).sizes(),
              (std::vector<std::int64_t>{images.size(0), 7}))
        << name;
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
