#include "brigade/models/registry.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/layers/end_points.h"
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

/// For variables whose values do not matter: to draw them takes seconds.
variables::Variable zero_weights(const variables::VariableGetter& getter,
                                 variables::GetVariableRequest request) {
  request.options.initializer = variables::zeros_initializer();
  return getter(request);
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
  for (const auto& name : model_names()) {
    if (!is_model_function(name)) continue;
    const at::Tensor images = images_for(name);
    const ClassifierFunction model = make_model_function(name, {.classes = 7});
    variables::Graph graph;
    const auto opened = graph.as_default();
    const auto scope = variables::variable_scope("scope", {.custom_getter = zero_weights});
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

using Dimensions = std::vector<std::int64_t>;

struct EndPointCase {
  const char* model;
  Dimensions images;
  std::vector<std::pair<const char*, Dimensions>> wanted;  // in this order
};

// A model of each kind; large ones without images, for which only their variables cost time.
const std::vector<EndPointCase>& end_point_cases() {
  static const std::vector<EndPointCase> cases = {
      {"cifar_resnet20", {2, 3, 32, 32}, {{"global_pool", {2, 64}}, {"block1", {2, 16, 32, 32}}}},
      {"inception_v3",
       {0, 3, 75, 75},
       {{"Conv2d_1a_3x3", {0, 32, 37, 37}}, {"PreLogits", {0, 2048, 1, 1}}}},
      {"mlp", {2, 1, 28, 28}, {{"dense1", {2, 64}}, {"dense4", {2, 7}}}},
      {"mnist_cnn", {2, 1, 28, 28}, {{"conv1", {2, 32, 14, 14}}, {"dense1", {2, 1024}}}},
      {"resnet18", {0, 3, 32, 32}, {{"block4", {0, 512, 1, 1}}, {"global_pool", {0, 512}}}},
      {"slim_net", {2, 1, 28, 28}, {{"pool1", {2, 64, 14, 14}}, {"fc1", {2, 256}}}},
  };
  return cases;
}

/// A forward pass of a small model as a module, of a large one as a function.
at::Tensor evaluated(const char* name, const ModelOptions& options, const at::Tensor& images) {
  if (!is_small(name)) {
    const auto scope = variables::variable_scope("scope", {.custom_getter = zero_weights});
    return make_model_function(name, options)(images, variables::Mode::kEvaluation);
  }
  const auto model = make_model(name, options);
  model->eval();
  return model->forward(images);
}

TEST(Registry, EveryModelAddsTheEndPointsThatItIsAskedForAndNoOthers) {
  for (const EndPointCase& each : end_point_cases()) {
    ModelOptions options{.classes = 7, .image_shape = {each.images.begin() + 1, each.images.end()}};
    for (const auto& [name, shape] : each.wanted) options.end_points.emplace_back(name);
    variables::Graph graph;
    const auto opened = graph.as_default();
    const at::Tensor logits = evaluated(each.model, options, torch::zeros(each.images));
    const layers::EndPoints points = layers::end_points(layers::kEndPoints);
    ASSERT_EQ(points.size(), each.wanted.size()) << each.model;
    auto point = points.begin();
    for (const auto& [name, shape] : each.wanted) {
      EXPECT_EQ(point->name, name) << each.model;
      EXPECT_EQ(point->value.sizes(), shape) << each.model << " " << name;
      ++point;
    }
    EXPECT_EQ(logits.sizes(), (Dimensions{each.images[0], 7}));
  }
}

TEST(Registry, EndPointsAreTheResultsThatTheNextLayersGet) {
  const auto mlp = make_model("mlp", {.inputs = 6, .hidden = {5}, .end_points = {"dense1"}});
  const at::Tensor x = torch::randn({4, 6});
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor logits = mlp->forward(x);
  const auto parameters = mlp->named_parameters();
  const at::Tensor hidden =
      torch::relu(torch::linear(x, parameters["dense1.weight"], parameters["dense1.bias"]));
  const at::Tensor point = layers::end_points(layers::kEndPoints).at("dense1");
  EXPECT_TRUE(torch::allclose(point, hidden));
  EXPECT_TRUE(torch::allclose(
      logits, torch::linear(point, parameters["dense2.weight"], parameters["dense2.bias"])));
}

TEST(Registry, AnUnknownEndPointIsRefusedWhenTheModelIsMade) {
  for (const EndPointCase& each : end_point_cases()) {
    if (!is_small(each.model)) continue;
    try {
      make_model(each.model, {.image_shape = {each.images.begin() + 1, each.images.end()},
                              .end_points = {"dense9"}});
      ADD_FAILURE() << each.model;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      const std::string text = error.what();
      EXPECT_NE(text.find("'dense9'"), std::string::npos) << text;
      EXPECT_NE(text.find(each.wanted[0].first), std::string::npos) << text;
    }
  }
}

TEST(Registry, WithoutAGraphAModelIsWhatItIsWithoutEndPoints) {
  const auto model = make_model("mnist_cnn", {.end_points = {"conv1"}});
  EXPECT_EQ(model->forward(torch::zeros({2, 1, 28, 28})).sizes(), (Dimensions{2, 10}));
}

}  // namespace
}  // namespace brigade::models
