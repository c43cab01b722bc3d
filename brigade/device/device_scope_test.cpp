#include "brigade/device/device_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PlacementRequest kLayer{.name = "conv1/Conv2D"};
const PlacementRequest kVariable{
    .name = "conv1/weights", .kind = PlacedKind::kVariable, .bytes = 8};

DeviceFunction answers(std::string name) {
  return [name](const PlacementRequest&) { return name; };
}

// A device function that always returns the same name and records its requests.
struct Witness {
  std::vector<std::string> inner;
  std::vector<std::string> outer;
  DeviceFunction function(std::string answer) {
    return [this, answer](const PlacementRequest& request) {
      inner.push_back(request.inner);
      outer.push_back(request.outer);
      return answer;
    };
  }
};

TEST(WithDevice, ChoosesNothingWithoutAScope) {
  EXPECT_FALSE(device_scope_is_open());
  EXPECT_EQ(requested_device(kLayer), "");
}

TEST(WithDevice, EndsWithItsBlock) {
  {
    const auto scope = with_device("gpu:0");
    EXPECT_TRUE(device_scope_is_open());
    EXPECT_EQ(requested_device(kLayer), "/device:GPU:0");
    {
      const auto inner = with_device("cpu:0");
      EXPECT_EQ(requested_device(kLayer), "/device:CPU:0");
    }
    EXPECT_EQ(requested_device(kLayer), "/device:GPU:0");
  }
  EXPECT_FALSE(device_scope_is_open());
}

TEST(WithDevice, EndsWithAnException) {
  try {
    const auto scope = with_device("gpu:0");
    throw std::runtime_error("out");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(device_scope_is_open());
}

TEST(WithDevice, BelongsToOneThread) {
  const auto scope = with_device("gpu:0");
  bool is_open = true;
  std::thread([&] { is_open = device_scope_is_open(); }).join();
  EXPECT_FALSE(is_open);
}

TEST(WithDevice, IsInheritedWithTheContext) {
  const auto scope = with_device("gpu:0");
  const base::Ambient context = base::ambient();
  std::string chosen;
  std::thread([&] {
    const base::AmbientInstall install(context);
    const auto inner = with_device("/job:worker");
    chosen = requested_device(kLayer);
  }).join();
  EXPECT_EQ(chosen, "/job:worker/device:GPU:0");
}

TEST(WithDevice, RefusesAMalformedNameAndOpensNothing) {
  try {
    const auto scope = with_device("/foo:0");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("/foo:0"));
  }
  EXPECT_FALSE(device_scope_is_open());
}

// From here on, expected values are those of TensorFlow 2.21 with the same scopes (graph mode).

TEST(WithDevice, MergesNestedNames) {
  const auto a = with_device("/job:worker/task:1");
  const auto b = with_device("/task:2");
  const auto c = with_device("/cpu:0");
  EXPECT_EQ(requested_device(kLayer), "/job:worker/task:2/device:CPU:0");
  const auto d = with_device("");
  EXPECT_EQ(requested_device(kLayer), "/job:worker/task:2/device:CPU:0");
}

TEST(WithDevice, AFunctionReplacesTheInnerChoice) {
  Witness witness;
  const auto a = with_device(witness.function("/gpu:2"));
  const auto b = with_device("/cpu:0");
  EXPECT_EQ(requested_device(kLayer), "/device:GPU:2");
  EXPECT_THAT(witness.inner, ElementsAre("/device:CPU:0"));
}

TEST(WithDevice, AnEmptyResultReplacesToo) {
  const auto outer = with_device("/job:worker");
  const auto a = with_device(answers(""));
  const auto b = with_device("/cpu:0");
  EXPECT_EQ(requested_device(kLayer), "/job:worker");
}

TEST(WithDevice, OuterNamesMergeWithAFunctionsResult) {
  const auto a = with_device("/job:w/cpu:0");
  const auto b = with_device(answers("/gpu:2"));
  EXPECT_EQ(requested_device(kLayer), "/job:w/device:GPU:2");
}

TEST(WithDevice, AnEmptyResultLeavesTheChoiceToOuterNames) {
  const auto a = with_device("/cpu:0");
  const auto b = with_device(answers(""));
  EXPECT_EQ(requested_device(kLayer), "/device:CPU:0");
}

TEST(WithDevice, CallsFunctionsFromTheInsideOut) {
  Witness outer;
  Witness inner;
  const auto a = with_device("/job:a");
  const auto b = with_device(outer.function("/gpu:2"));
  const auto c = with_device(inner.function("/cpu:0"));
  EXPECT_EQ(requested_device(kLayer), "/job:a/device:GPU:2");
  EXPECT_THAT(inner.inner, ElementsAre(""));
  EXPECT_THAT(outer.inner, ElementsAre("/device:CPU:0"));
}

TEST(WithDevice, AFunctionIsAppliedBetweenTheNamesAroundIt) {
  Witness witness;
  const auto a = with_device("/job:a/gpu:0");
  const auto b = with_device(witness.function("/gpu:3"));
  const auto c = with_device("/task:2");
  EXPECT_EQ(requested_device(kLayer), "/job:a/device:GPU:3");
  EXPECT_THAT(witness.inner, ElementsAre("/task:2"));
}

TEST(WithDevice, NulloptIgnoresOuterScopes) {
  Witness unasked;
  const auto a = with_device("/job:a");
  const auto b = with_device(unasked.function("/gpu:3"));
  const auto c = with_device(std::nullopt);
  EXPECT_EQ(requested_device(kLayer), "");
  const auto d = with_device("/gpu:0");
  EXPECT_EQ(requested_device(kLayer), "/device:GPU:0");
  const auto e = with_device(
      [](const PlacementRequest& request) { return request.inner + request.outer + "/task:1"; });
  EXPECT_EQ(requested_device(kLayer), "/task:1/device:GPU:0");
  EXPECT_TRUE(unasked.inner.empty());
}

// Behavior without a TensorFlow counterpart.

TEST(WithDevice, PassesOuterNamesToAFunction) {
  Witness outermost;
  Witness middle;
  const auto a = with_device("/job:far");
  const auto b = with_device(std::nullopt);
  const auto c = with_device(outermost.function("/gpu:7"));
  const auto d = with_device("/job:w");
  const auto e = with_device("/cpu:0");
  const auto f = with_device(middle.function("/task:1"));
  EXPECT_EQ(requested_device(kLayer), "/device:GPU:7");
  EXPECT_THAT(middle.outer, ElementsAre("/job:w/device:CPU:0")) << "functions left out";
  EXPECT_THAT(outermost.outer, ElementsAre("")) << "not beyond the clearing scope";
}

TEST(WithDevice, PassesTheRequestToAFunction) {
  PlacementRequest seen;
  const auto scope = with_device([&](const PlacementRequest& request) {
    seen = request;
    return std::string();
  });
  EXPECT_EQ(requested_device(kVariable), "");
  EXPECT_EQ(seen.name, "conv1/weights");
  EXPECT_EQ(seen.kind, PlacedKind::kVariable);
  EXPECT_EQ(seen.bytes, 8);
}

TEST(WithDevice, AnEmptyFunctionChangesNothing) {
  const auto a = with_device("/job:w");
  const auto b = with_device(DeviceFunction{});
  const auto c = with_device("/cpu:0");
  EXPECT_EQ(requested_device(kLayer), "/job:w/device:CPU:0");
}

TEST(WithDevice, IgnoresAnInnerDeviceOfTheCallers) {
  const auto scope = with_device("/job:w");
  PlacementRequest request = kLayer;
  request.inner = "/job:other";
  EXPECT_EQ(requested_device(request), "/job:w");
}

TEST(WithDevice, NamesTheThingIfAFunctionsAnswerIsMalformed) {
  const auto scope = with_device(answers("/foo:0"));
  try {
    requested_device(kVariable);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("variable conv1/weights"));
    EXPECT_THAT(error.what(), HasSubstr("/foo:0"));
  }
}

TEST(CapturedDeviceScopes, ChooseAsTheScopesThatWereOpen) {
  Witness witness;
  CapturedDeviceScopes captured;
  std::string choice;
  {
    const auto outer = with_device("/job:worker");
    const auto function = with_device(witness.function("/job:ps"));
    const auto inner = with_device("gpu:1");
    captured = current_device_scopes();
    choice = requested_device(kLayer);
  }
  EXPECT_FALSE(device_scope_is_open());
  const auto hidden = with_device("cpu:3");
  const DeviceScope again(captured);
  EXPECT_EQ(requested_device(kLayer), choice);
  EXPECT_THAT(witness.inner, ElementsAre("/device:GPU:1", "/device:GPU:1"));
  EXPECT_THAT(witness.outer, ElementsAre("/job:worker", "/job:worker"));
  const auto innermost = with_device("/task:2");
  EXPECT_EQ(requested_device(kLayer), "/job:ps");
}

TEST(CapturedDeviceScopes, EndAtAScopeThatIgnoresTheOuterOnes) {
  const auto outer = with_device("cpu:0");
  const auto clear = with_device(std::nullopt);
  const auto inner = with_device("/task:1");
  EXPECT_EQ(current_device_scopes().size(), 2U);
  const DeviceScope again(current_device_scopes());
  EXPECT_EQ(requested_device(kLayer), "/task:1");
}

}  // namespace
}  // namespace brigade::device
