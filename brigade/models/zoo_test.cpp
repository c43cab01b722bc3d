#include "brigade/models/zoo.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::models {
namespace {

TEST(Zoo, MakesEveryModelItNames) {
  EXPECT_EQ(model_names(), (std::vector<std::string>{"mlp", "mnist_cnn"}));
  for (const auto& name : model_names()) {
    const auto model = make_model(name, {.classes = 7});
    EXPECT_EQ(model->forward(torch::zeros({2, 28, 28})).sizes(), (std::vector<std::int64_t>{2, 7}))
        << name;
  }
}

TEST(Zoo, UnknownNameListsTheNamesAndTheNearest) {
  try {
    make_model("mnist_cn");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("did you mean 'mnist_cnn'? Models: mlp, mnist_cnn"),
              std::string::npos)
        << error.what();
  }
}

TEST(Zoo, RefusesImagesTheCnnCannotTake) {
  EXPECT_THROW(make_model("mnist_cnn", {.inputs = 3072}), Error);
}

}  // namespace
}  // namespace brigade::models
