#include "brigade/io/state_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "brigade/base/error.h"

namespace brigade::io {
namespace {

using testing::HasSubstr;

/// The message of the error that `call` throws, which must be kInvalidArgument.
template <class Call>
std::string refusal_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "did not throw";
  return "";
}

ArrayLeaf floats(std::int64_t count) {
  return {"F32", {count}, std::vector<std::byte>(static_cast<std::size_t>(count) * 4)};
}

TEST(StateTree, KnowsTheTypeOfEachValue) {
  EXPECT_EQ(StateTree().kind(), StateKind::kNull);
  EXPECT_EQ(StateTree(true).kind(), StateKind::kBool);
  EXPECT_EQ(StateTree(1).kind(), StateKind::kInt64);
  EXPECT_EQ(StateTree(1L).kind(), StateKind::kInt64);
  EXPECT_EQ(StateTree(1u).kind(), StateKind::kUint64);
  EXPECT_EQ(StateTree(std::size_t{1}).kind(), StateKind::kUint64);
  EXPECT_EQ(StateTree(1.0).kind(), StateKind::kDouble);
  EXPECT_EQ(StateTree("text").kind(), StateKind::kString);
  EXPECT_EQ(StateTree(std::string_view("text")).kind(), StateKind::kString);
  EXPECT_EQ(StateTree(StateTree::Bytes(3)).kind(), StateKind::kBytes);
  EXPECT_EQ(StateTree(floats(2)).kind(), StateKind::kArray);
  EXPECT_EQ(StateTree::list().kind(), StateKind::kList);
  EXPECT_EQ(StateTree::dict().kind(), StateKind::kDict);
}

TEST(StateTree, AddsKeysAndElements) {
  StateTree state;
  state["rng"]["key"] = std::uint64_t{5};
  state["buffer"].push_back("a");
  state["buffer"].push_back(StateTree());
  EXPECT_EQ(state.size(), 2u);
  EXPECT_TRUE(state.has("rng"));
  EXPECT_FALSE(state.has("position"));
  EXPECT_EQ(state.as_uint64("rng", "key"), 5u);
  EXPECT_EQ(state.at("rng").as_uint64("key"), 5u);
  EXPECT_EQ(state.as_string("buffer", 0), "a");
  EXPECT_TRUE(state.at("buffer", 1).is_null());
  EXPECT_EQ(state.as_list("buffer").size(), 2u);
}

TEST(StateTree, RefusesToAddToALeaf) {
  StateTree leaf = 3;
  EXPECT_THAT(refusal_of([&] { leaf["key"] = 1; }), HasSubstr("\"key\""));
  EXPECT_THAT(refusal_of([&] { leaf.push_back(1); }), HasSubstr("int64, not list"));
}

TEST(StateTree, NamesThePathOfWhatIsMissing) {
  StateTree state;
  state["input"]["position"] = 3;
  state["input"]["list"].push_back(1);
  EXPECT_THAT(refusal_of([&] { state.at("input", "epoch"); }),
              HasSubstr("state[\"input\"] has no \"epoch\"; it has \"list\", \"position\""));
  EXPECT_THAT(refusal_of([&] { state.at("input", "list", 1); }),
              HasSubstr("state[\"input\"][\"list\"] has no element 1; it has 1"));
  EXPECT_THAT(refusal_of([&] { state.at("input", "list", -1); }), HasSubstr("has no element"));
  EXPECT_THAT(refusal_of([&] { state.at("input", "position", "x"); }),
              HasSubstr("state[\"input\"][\"position\"] is int64, not dict"));
  EXPECT_THAT(refusal_of([&] { state.at(0); }), HasSubstr("state is dict, not list"));
}

TEST(StateTree, NamesThePathAndTypesOfAWrongLeaf) {
  StateTree state;
  state["position"] = "three";
  EXPECT_THAT(refusal_of([&] { state.as_int64("position"); }),
              HasSubstr("state[\"position\"] is string, not int64"));
  EXPECT_THAT(refusal_of([&] { state.as_uint64("position"); }), HasSubstr("not uint64"));
  EXPECT_THAT(refusal_of([&] { state.as_bool("position"); }), HasSubstr("not bool"));
  EXPECT_THAT(refusal_of([&] { state.as_double("position"); }), HasSubstr("not double"));
  EXPECT_THAT(refusal_of([&] { state.as_bytes("position"); }), HasSubstr("not bytes"));
  EXPECT_THAT(refusal_of([&] { state.as_array("position"); }), HasSubstr("not array"));
  EXPECT_THAT(refusal_of([&] { state.as_list("position"); }), HasSubstr("not list"));
  EXPECT_THAT(refusal_of([&] { state.as_dict("position"); }), HasSubstr("not dict"));
  EXPECT_THAT(refusal_of([&] { state.as_string(); }), HasSubstr("state is dict, not string"));
}

TEST(StateTree, ReadsIntegersOfEitherKindWhereTheyFit) {
  constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 63;
  EXPECT_EQ(StateTree(7u).as_int64(), 7);
  EXPECT_EQ(StateTree(7).as_uint64(), 7u);
  EXPECT_EQ(StateTree(kTooLarge - 1).as_int64(), std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(refusal_of([&] { StateTree(kTooLarge).as_int64(); }), HasSubstr("too large"));
  EXPECT_THAT(refusal_of([&] { StateTree(-1).as_uint64(); }), HasSubstr("negative"));
  EXPECT_THAT(refusal_of([&] { StateTree(1).as_double(); }), HasSubstr("int64, not double"));
}

TEST(StateTree, ComparesTypesAndBits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(StateTree(nan), StateTree(nan));
  EXPECT_FALSE(StateTree(0.0) == StateTree(-0.0));
  EXPECT_FALSE(StateTree(1) == StateTree(1u));
  EXPECT_FALSE(StateTree() == StateTree::dict());
  StateTree a;
  a["x"].push_back(nan);
  const StateTree b = a;
  EXPECT_EQ(a, b);
  a["x"].push_back(1);
  EXPECT_FALSE(a == b);
}

TEST(ArrayLeaf, MustBeConsistent) {
  const auto refused = [](ArrayLeaf array) {
    return refusal_of([&] { const StateTree tree(std::move(array)); });
  };
  EXPECT_NO_THROW(StateTree(ArrayLeaf{"F64", {}, std::vector<std::byte>(8)}));
  EXPECT_NO_THROW(StateTree(ArrayLeaf{"U8", {0, 5}, {}}));
  EXPECT_THAT(refused({"float", {1}, std::vector<std::byte>(4)}), HasSubstr("\"float\""));
  EXPECT_THAT(refused({"F32", {2, 3}, std::vector<std::byte>(23)}), HasSubstr("[2, 3]"));
  EXPECT_THAT(refused({"U8", {-1}, {}}), HasSubstr("-1"));
  // The product is 2^64, which overflows to 0.
  EXPECT_THAT(refused({"U8", {std::int64_t{1} << 32, std::int64_t{1} << 32}, {}}),
              HasSubstr("0 bytes"));
}

}  // namespace
}  // namespace brigade::io
