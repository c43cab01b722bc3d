#include "brigade/variables/name_scope.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/variables/graph.h"

namespace brigade::variables {
namespace {

ErrorCode code_of_opening(const std::string& name) {
  try {
    const auto scope = name_scope(name);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(NameScope, NestsAndIsMadeUnique) {
  Graph graph;
  const auto opened = graph.as_default();
  {
    const auto outer = name_scope("tower");
    EXPECT_EQ(outer.name(), "tower/");
    const auto inner = name_scope("conv");
    EXPECT_EQ(inner.name(), "tower/conv/");
    EXPECT_EQ(graph.name_scope(), "tower/conv/");
  }
  EXPECT_EQ(graph.name_scope(), "");
  EXPECT_EQ(name_scope("tower").name(), "tower_1/");
  EXPECT_EQ(name_scope("Tower").name(), "Tower_2/");
}

TEST(NameScope, WithASlashIsUsedUnchanged) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto outer = name_scope("outer");
  const auto again = name_scope("outer/");
  EXPECT_EQ(again.name(), "outer/");
  EXPECT_EQ(graph.unique_name("x"), "outer/x");
  const auto other = name_scope("other/place/");
  EXPECT_EQ(graph.name_scope(), "other/place/");
}

TEST(NameScope, WithoutANameIsTheRoot) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto outer = name_scope("outer");
  {
    const auto root = name_scope("");
    EXPECT_EQ(graph.unique_name("x"), "x");
  }
  EXPECT_EQ(graph.name_scope(), "outer/");
}

TEST(NameScope, RefusesTheNamesThatTensorFlowRefuses) {
  Graph graph;
  const auto opened = graph.as_default();
  EXPECT_EQ(code_of_opening("_x"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of_opening("-y"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of_opening("a b"), ErrorCode::kInvalidArgument);
  const auto outer = name_scope("ok/x");
  EXPECT_EQ(name_scope("_x").name(), "ok/x/_x/");
}

TEST(NameScope, NeedsAGraph) {
  EXPECT_EQ(code_of_opening("a"), ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace brigade::variables
