#include "brigade/layers/arg_scope.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "brigade/base/error.h"

namespace brigade::layers {

// Two layers of this test. They return the arguments that they were called with.
struct BoxOptions {
  std::optional<Size2d> stride = std::nullopt;
  std::optional<Padding> padding = std::nullopt;
  std::optional<Activation> activation = std::nullopt;
  std::vector<std::string> outputs_collections = {};
  std::string label = {};
};
LayerArguments box(const BoxOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<box> = layer_kind<BoxOptions>("box");

struct SieveOptions {
  std::optional<double> keep_prob = std::nullopt;
  std::optional<Size2d> stride = std::nullopt;
};
LayerArguments sieve(const SieveOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<sieve> = layer_kind<SieveOptions>("sieve");

LayerArguments box(const BoxOptions& options) {
  return arguments_in_force(kLayerKind<box>, options);
}
LayerArguments sieve(const SieveOptions& options) {
  return arguments_in_force(kLayerKind<sieve>, options);
}

namespace {

std::int64_t stride_of(const LayerArguments& arguments) {
  return arguments.stride ? arguments.stride->height : 0;
}

TEST(ArgScope, GivesDefaultsToTheFunctionsNamed) {
  EXPECT_EQ(stride_of(box()), 0);
  {
    const auto scope = arg_scope<box, sieve>({.stride = 3});
    EXPECT_EQ(stride_of(box()), 3);
    EXPECT_EQ(stride_of(sieve()), 3);
  }
  EXPECT_EQ(stride_of(box()), 0) << "the default ends with the scope";
  const auto scope = arg_scope<box>({.stride = 3});
  EXPECT_EQ(stride_of(sieve()), 0) << "not named";
}

TEST(ArgScope, TheCallTakesPrecedenceOverInnerAndOuterScopes) {
  const auto outer = arg_scope<box>({.stride = 2, .padding = Padding::kValid});
  {
    const auto inner = arg_scope<box>({.stride = 3});
    EXPECT_EQ(stride_of(box()), 3);
    EXPECT_EQ(box().padding, Padding::kValid) << "not set by the inner scope";
    EXPECT_EQ(stride_of(box({.stride = 4})), 4);
  }
  EXPECT_EQ(stride_of(box()), 2);
}

TEST(ArgScope, NoneIsAValueToo) {
  const auto outer = arg_scope<box>({.activation = relu});
  EXPECT_TRUE(*box().activation);
  const auto none = box({.activation = nullptr});
  ASSERT_TRUE(none.activation.has_value());
  EXPECT_FALSE(*none.activation);
  const auto inner = arg_scope<box>({.activation = nullptr});
  EXPECT_FALSE(*box().activation);
}

TEST(ArgScope, RefusesArgumentsThatALayerDoesNotTake) {
  try {
    const auto scope = arg_scope<box, sieve>({.padding = Padding::kSame});
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "arg_scope: sieve takes no argument padding; it takes stride, keep_prob. Give it "
                 "in a scope of the layers that take it.");
  }
  EXPECT_EQ(kArgScopeSlot.get(), nullptr) << "no scope is left open";
}

CapturedArgScope make_defaults() {
  const auto outer = arg_scope<box, sieve>({.stride = 2});
  const auto inner = arg_scope<sieve>({.keep_prob = 0.25});
  return current_arg_scope();
}

TEST(ArgScope, CanBeCapturedAndEnteredAgain) {
  const auto captured = make_defaults();
  EXPECT_EQ(stride_of(box()), 0);
  const auto outside = arg_scope<box>({.stride = 7, .padding = Padding::kValid});
  {
    const auto again = arg_scope(captured);
    EXPECT_EQ(stride_of(box()), 2);
    EXPECT_EQ(sieve().keep_prob, 0.25);
    EXPECT_FALSE(box().padding) << "outer defaults are replaced, not merged";
    const auto inside = arg_scope<box>({.stride = 5});
    EXPECT_EQ(stride_of(box()), 5);
    EXPECT_EQ(current_arg_scope().size(), 3u);
  }
  EXPECT_EQ(stride_of(box()), 7);
}

TEST(ArgScope, NamesTheArgumentsOfALayer) {
  const std::vector<std::string_view> wanted = {"stride", "padding", "activation",
                                                "outputs_collections"};
  EXPECT_EQ(arg_scoped_arguments<box>(), wanted);
}

TEST(ArgScope, IsInheritedWithTheContext) {
  const auto scope = arg_scope<box>({.stride = 6});
  const auto context = base::ambient();
  std::int64_t without = -1, with = -1;
  std::thread([&] {
    without = stride_of(box());
    const base::AmbientInstall install(context);
    with = stride_of(box());
  }).join();
  EXPECT_EQ(without, 0);
  EXPECT_EQ(with, 6);
}

TEST(ArgScope, FillsTheOptionsOfACustomLayer) {
  const auto scope = arg_scope<box>({.stride = 6, .outputs_collections = {"ends"}});
  const auto options = with_defaults(kLayerKind<box>, BoxOptions{.label = "mine"});
  EXPECT_EQ(options.stride->width, 6);
  EXPECT_EQ(options.outputs_collections, std::vector<std::string>{"ends"});
  EXPECT_EQ(options.label, "mine");
}

}  // namespace
}  // namespace brigade::layers
