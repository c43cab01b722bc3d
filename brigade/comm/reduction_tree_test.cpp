#include "brigade/comm/reduction_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::comm {
namespace {

constexpr int kMostLeaves = 17;

/// The rule, written down again: the first leaf of the right child.
int middle(int begin, int end) {
  int left = 1;
  while (2 * left < end - begin) left *= 2;
  return begin + left;
}

/// All nodes of a tree.
void collect_nodes(LeafRange node, std::vector<LeafRange>& nodes) {
  nodes.push_back(node);
  if (node.size() == 1) return;
  const int between = middle(node.begin, node.end);
  collect_nodes({node.begin, between}, nodes);
  collect_nodes({between, node.end}, nodes);
}

std::vector<LeafRange> nodes_of(int leaves) {
  std::vector<LeafRange> nodes;
  collect_nodes({0, leaves}, nodes);
  return nodes;
}

float reference(const std::vector<float>& leaves, int begin, int end) {
  if (end - begin == 1) return leaves[static_cast<std::size_t>(begin)];
  const int between = middle(begin, end);
  return reference(leaves, begin, between) + reference(leaves, between, end);
}

/// Of magnitudes so different that almost every order of additions has its own sum.
std::vector<float> random_values(int count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    const auto bits = static_cast<std::int32_t>(generator() >> 1);
    values.push_back(std::ldexp(static_cast<float>(bits % 2001 - 1000) + 0.37F,
                                static_cast<int>(generator() % 24)));
  }
  return values;
}

float value_of(const ReductionTree& tree, const std::vector<float>& values) {
  return tree.evaluate(std::span<const float>(values), std::plus<float>());
}

std::string expression(const ReductionTree& tree) {
  std::vector<std::string> names;
  for (const LeafRange& part : tree.parts()) {
    names.push_back(std::to_string(part.begin));
    if (part.size() > 1) names.back() += "-" + std::to_string(part.end - 1);
  }
  return tree.evaluate(std::span<const std::string>(names),
                       [](const std::string& left, const std::string& right) {
                         return "(" + left + " + " + right + ")";
                       });
}

TEST(ReductionTree, SplitsAfterTheLargestPowerOfTwo) {
  EXPECT_EQ(expression(ReductionTree(1)), "0");
  EXPECT_EQ(expression(ReductionTree(2)), "(0 + 1)");
  EXPECT_EQ(expression(ReductionTree(3)), "((0 + 1) + 2)");
  EXPECT_EQ(expression(ReductionTree(4)), "((0 + 1) + (2 + 3))");
  EXPECT_EQ(expression(ReductionTree(5)), "(((0 + 1) + (2 + 3)) + 4)");
  EXPECT_EQ(expression(ReductionTree(6)), "(((0 + 1) + (2 + 3)) + (4 + 5))");
  EXPECT_EQ(expression(ReductionTree(7)), "(((0 + 1) + (2 + 3)) + ((4 + 5) + 6))");
}

TEST(ReductionTree, AddsPartsWhereTheirLeavesWouldBeAdded) {
  const ReductionTree tree(6, {{0, 2}, {2, 3}, {3, 4}, {4, 6}});
  EXPECT_EQ(expression(tree), "((0-1 + (2 + 3)) + 4-5)");
}

TEST(ReductionTree, HasTheValueOfTheRule) {
  for (int leaves = 1; leaves <= kMostLeaves; ++leaves) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::vector<float> values = random_values(leaves, seed);
      EXPECT_EQ(value_of(ReductionTree(leaves), values), reference(values, 0, leaves)) << leaves;
    }
  }
}

TEST(ReductionTree, IsNoChainOfAdditions) {
  const std::vector<float> values = {1e8F, 1, 3, 3};
  EXPECT_NE(value_of(ReductionTree(4), values), ((values[0] + values[1]) + values[2]) + values[3]);
}

TEST(ReductionTree, AChainAddsOneAfterAnother) {
  EXPECT_EQ(expression(ReductionTree::chain(1)), "0");
  EXPECT_EQ(expression(ReductionTree::chain(5)), "((((0 + 1) + 2) + 3) + 4)");
  EXPECT_EQ(ReductionTree::chain(5).stack_size(), 2);
}

// With names for values: an empty one adds nothing.
TEST(ReductionTree, AdditionsOfSomePartsAreThoseOfTheTree) {
  const auto add = [](const std::string& left, const std::string& right) {
    if (left.empty() || right.empty()) return left + right;
    return "(" + left + " + " + right + ")";
  };
  for (const ReductionTree& tree :
       {ReductionTree(1), ReductionTree(5), ReductionTree(8), ReductionTree::chain(6),
        ReductionTree(6, {{0, 2}, {2, 3}, {3, 4}, {4, 6}})}) {
    const std::size_t parts = tree.parts().size();
    for (unsigned mask = 1; mask < 1U << parts; ++mask) {
      std::vector<bool> is_present;
      std::vector<std::string> names;
      for (std::size_t part = 0; part < parts; ++part) {
        is_present.push_back((mask >> part & 1U) != 0);
        names.push_back(is_present.back() ? std::to_string(part) : "");
      }
      const std::vector<int> additions = tree.additions_of(is_present);
      std::vector<std::string> stack;
      for (std::size_t part = 0; part < parts; ++part) {
        EXPECT_EQ(additions[part] >= 0, is_present[part]);
        if (!is_present[part]) continue;
        stack.push_back(names[part]);
        for (int i = 0; i < additions[part]; ++i) {
          const std::string right = stack.back();
          stack.pop_back();
          ASSERT_FALSE(stack.empty());
          stack.back() = add(stack.back(), right);
        }
      }
      ASSERT_EQ(stack.size(), 1U);
      EXPECT_EQ(stack.front(), tree.evaluate(std::span<const std::string>(names), add));
    }
  }
}

TEST(ReductionTree, WholeSubtreesTileTheirBlockAndAreMaximal) {
  for (int leaves = 1; leaves <= kMostLeaves; ++leaves) {
    const std::vector<LeafRange> nodes = nodes_of(leaves);
    for (int begin = 0; begin < leaves; ++begin) {
      for (int end = begin + 1; end <= leaves; ++end) {
        int next = begin;
        for (const LeafRange& part : ReductionTree::whole_subtrees(leaves, {begin, end})) {
          EXPECT_EQ(part.begin, next);
          next = part.end;
          EXPECT_TRUE(std::ranges::count(nodes, part)) << part.begin << ", " << part.end;
          // No larger node has these leaves and is in the block.
          for (const LeafRange& node : nodes) {
            const bool contains = node.begin <= part.begin && part.end <= node.end;
            const bool is_inside = begin <= node.begin && node.end <= end;
            EXPECT_FALSE(contains && is_inside && node.size() > part.size());
          }
        }
        EXPECT_EQ(next, end);
      }
    }
  }
}

TEST(ReductionTree, TheValueDoesNotDependOnHowLeavesAreCutIntoBlocks) {
  for (int leaves = 1; leaves <= kMostLeaves; ++leaves) {
    const std::vector<float> values = random_values(leaves, 7);
    for (int first = 0; first < leaves; ++first) {
      for (int second = first; second < leaves; ++second) {
        std::vector<LeafRange> parts;
        std::vector<float> sums;
        int begin = 0;
        for (const int end : {first, second, leaves}) {
          if (begin == end) continue;
          for (const LeafRange& part : ReductionTree::whole_subtrees(leaves, {begin, end})) {
            parts.push_back(part);
            // A subtree of n leaves is the tree of n leaves.
            const std::vector<float> own(values.begin() + part.begin, values.begin() + part.end);
            sums.push_back(value_of(ReductionTree(part.size()), own));
          }
          begin = end;
        }
        const ReductionTree tree(leaves, parts);
        EXPECT_EQ(value_of(tree, sums), reference(values, 0, leaves)) << expression(tree);
      }
    }
  }
}

TEST(ReductionTree, NeedsALowStack) {
  for (const auto& [leaves, size] : {std::pair(1, 1), {2, 2}, {3, 2}, {4, 3}, {8, 4}, {17, 5}})
    EXPECT_EQ(ReductionTree(leaves).stack_size(), size) << leaves;
}

TEST(ReductionTree, RefusesWhatIsNoTree) {
  const auto code_of = [](int leaves, std::vector<LeafRange> parts) {
    try {
      ReductionTree(leaves, std::move(parts));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code_of(0, {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(3, {{0, 2}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(3, {{0, 1}, {1, 3}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(2, {{0, 1}, {1, 2}, {2, 3}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(2, {{1, 2}, {0, 1}}), ErrorCode::kInvalidArgument);
  EXPECT_THROW(ReductionTree::whole_subtrees(4, {2, 2}), Error);
  EXPECT_THROW(ReductionTree::whole_subtrees(4, {2, 5}), Error);
}

}  // namespace
}  // namespace brigade::comm
