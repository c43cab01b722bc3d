#include "brigade/variables/graph.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <thread>

#include "brigade/base/error.h"

namespace brigade::variables {
namespace {

std::vector<std::string> names_of(const std::vector<GraphTensor>& members) {
  std::vector<std::string> names;
  for (const GraphTensor& member : members) names.push_back(member.name);
  return names;
}

std::vector<std::string> names_of(const std::vector<UpdateOp>& ops) {
  std::vector<std::string> names;
  for (const UpdateOp& op : ops) names.push_back(op.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Graph, MakesNamesUniqueIgnoringCaseAsTensorFlow) {
  Graph graph;
  Names names;
  for (const char* name : {"a", "A", "a", "a_1", "b", "b_1", "b"}) {
    names.push_back(graph.unique_name(name));
  }
  EXPECT_EQ(names, (Names{"a", "A_1", "a_2", "a_1_1", "b", "b_1", "b_2"}));
}

TEST(Graph, PrefixesNamesWithTheOpenNameScope) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto tower = name_scope("tower_0");
  EXPECT_EQ(graph.unique_name("conv"), "tower_0/conv");
  EXPECT_EQ(graph.unique_name("conv"), "tower_0/conv_1");
}

TEST(Graph, IsCurrentOnItsThreadWhileItIsDefault) {
  EXPECT_EQ(current_graph(), nullptr);
  Graph outer;
  Graph inner;
  {
    const auto first = outer.as_default();
    {
      const auto second = inner.as_default();
      EXPECT_EQ(current_graph(), &inner);
    }
    EXPECT_EQ(current_graph(), &outer);
    std::thread([] { EXPECT_EQ(current_graph(), nullptr); }).join();
  }
  EXPECT_EQ(current_graph(), nullptr);
}

TEST(Graph, AMissingGraphIsAnErrorNamingTheCall) {
  try {
    require_graph("get_variable");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_NE(std::string(error.what()).find("get_variable needs an open graph"),
              std::string::npos);
  }
}

TEST(Graph, KeepsLossesInOrderUnderTheirScopes) {
  Graph graph;
  const auto opened = graph.as_default();
  {
    const auto tower = name_scope("tower_0");
    graph.add_loss("loss", at::scalar_tensor(1.0));
    graph.add_loss("loss", at::scalar_tensor(2.0));
  }
  {
    const auto tower = name_scope("tower_1");
    graph.add_loss("loss", at::scalar_tensor(3.0));
  }
  EXPECT_EQ(graph.losses().size(), 3U);
  const auto first = graph.losses("tower_0/");
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[1].item<double>(), 2.0);
  EXPECT_EQ(graph.losses("tower_1/").front().item<double>(), 3.0);
  EXPECT_TRUE(graph.losses("tower_2").empty());
}

TEST(Graph, NamesEndPointsUnderTheNameScopeOrCompletely) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto net = name_scope("net");
  graph.add_to_collection("end_points", "conv1", at::scalar_tensor(1.0));
  graph.add_to_collection("end_points", "conv1", at::scalar_tensor(2.0));
  graph.add_to_collection("end_points", "Other/fc/", at::scalar_tensor(3.0));
  EXPECT_EQ(names_of(graph.collection("end_points")),
            (Names{"net/conv1", "net/conv1", "Other/fc"}));
  EXPECT_EQ(names_of(graph.collection("end_points", "Other")), (Names{"Other/fc"}));
  EXPECT_TRUE(graph.collection("others").empty());
}

TEST(Graph, RunsTheUpdatesOfAScopeOnce) {
  Graph graph;
  const auto opened = graph.as_default();
  int first = 0;
  int second = 0;
  {
    const auto tower = name_scope("tower_0");
    graph.add_update_op("moving", [&] { ++first; });
  }
  {
    const auto tower = name_scope("tower_1");
    graph.add_update_op("moving", [&] { ++second; });
  }
  EXPECT_EQ(names_of(graph.update_ops()), (Names{"tower_0/moving", "tower_1/moving"}));
  graph.run_update_ops("tower_0");
  graph.run_update_ops("tower_0");
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  graph.drop_update_ops();
  graph.run_update_ops();
  EXPECT_EQ(second, 0);
}

TEST(Graph, ItsOwnStoreFollowsDeviceScopes) {
  Graph graph;
  EXPECT_EQ(graph.store().placement(), StorePlacement::kDeviceScopes);
  EXPECT_EQ(graph.store().num_replicas(), 1);
}

TEST(Graph, ReusesFromTheRootIfAskedTo) {
  Graph graph(GraphOptions{.reuse = Reuse::kYes});
  const auto opened = graph.as_default();
  EXPECT_EQ(get_variable_scope().reuse(), Reuse::kYes);
  Graph fresh;
  const auto inner = fresh.as_default();
  EXPECT_EQ(get_variable_scope().reuse(), Reuse::kNo);
}

const c10::Device kAway(c10::kMeta);

TEST(ValueCache, CopiesOncePerDeviceUntilTheValueChanges) {
  ValueCache cache;
  at::Tensor value = at::ones({2});
  EXPECT_TRUE(cache.get(value, c10::kCPU).is_same(value));
  const at::Tensor copy = cache.get(value, kAway);
  EXPECT_TRUE(cache.get(value, kAway).is_same(copy));
  value.add_(1);
  EXPECT_FALSE(cache.get(value, kAway).is_same(copy));
}

TEST(ValueCache, CopiesAgainForGradientsThatACopyDoesNotRecord) {
  ValueCache cache;
  const at::Tensor value = at::ones({2}).requires_grad_();
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(cache.get(value, kAway).requires_grad());
  }
  const at::Tensor recording = cache.get(value, kAway);
  EXPECT_TRUE(recording.requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(cache.get(value, kAway).is_same(recording));
}

TEST(ValueCache, DistinguishesComponents) {
  ValueCache cache;
  const at::Tensor first = at::ones({2});
  const at::Tensor second = at::ones({3});
  EXPECT_EQ(cache.get(first, kAway).numel(), 2);
  EXPECT_EQ(cache.get(second, kAway).numel(), 3);
}

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
