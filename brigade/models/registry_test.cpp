#include "brigade/models/registry.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/variables/graph.h"

namespace brigade::models {
namespace {

TEST(Registry, CreatesEveryListedModel) {
  EXPECT_EQ(model_names(), (std::vector<std::string>{"mlp", "mnist_cnn", "slim_net"}));
  const std::vector<std::int64_t> logits = {2, 7};
  const at::Tensor images = torch::zeros({2, 1, 28, 28});
  for (const auto& name : model_names()) {
    if (is_model_function(name)) {
      variables::Graph graph;
      const auto opened = graph.as_default();
      const ModelFunction model = make_model_function(name, {.classes = 7});
      EXPECT_EQ(model(images, variables::Mode::kTraining).sizes(), logits) << name;
    } else {
      EXPECT_EQ(make_model(name, {.classes = 7})->forward(images).sizes(), logits) << name;
    }
  }
}

TEST(Registry, KnowsWhichModelsAreFunctions) {
  EXPECT_TRUE(is_model_function("slim_net"));
  EXPECT_THROW(make_model("slim_net"), Error);
  EXPECT_THROW(make_model_function("mlp"), Error);
  EXPECT_THROW(make_model_function("slim"), Error);
}

TEST(Registry, AnUnknownNameIsRefusedWithTheNearestName) {
  try {
    make_model("mnist_cn");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what())
                  .find("did you mean 'mnist_cnn'? Models: mlp, mnist_cnn, slim_net"),
              std::string::npos)
        << error.what();
  }
}

TEST(Registry, RefusesImagesOfAnotherSize) {
  EXPECT_THROW(make_model("mnist_cnn", {.inputs = 3072}), Error);
}

}  // namespace
}  // namespace brigade::models
