#include "brigade/comm/reduction_tree.h"

#include <algorithm>
#include <bit>

#include "brigade/base/error.h"

namespace brigade::comm {

namespace {

void append_subtrees(LeafRange node, LeafRange block, std::vector<LeafRange>& subtrees) {
  if (node.end <= block.begin || node.begin >= block.end) return;
  if (block.begin <= node.begin && node.end <= block.end) {
    subtrees.push_back(node);
    return;
  }
  const auto [left, right] = ReductionTree::children(node);
  append_subtrees(left, block, subtrees);
  append_subtrees(right, block, subtrees);
}

/// Appends the numbers of additions after the parts of `node`, of which `part` is the first; on
/// return it is the first after the node. `finished` nodes end with this one.
void append_additions(LeafRange node, std::span<const LeafRange> parts, std::size_t& part,
                      int finished, std::vector<int>& additions) {
  if (part < parts.size() && parts[part] == node) {
    ++part;
    additions.push_back(finished);
    return;
  }
  check_argument(node.size() > 1 && part < parts.size(),
                 "The parts of a ReductionTree must be subtrees, in order, that contain each leaf "
                 "once; leaf ",
                 node.begin, " is in none of them.");
  const auto [left, right] = ReductionTree::children(node);
  append_additions(left, parts, part, 0, additions);
  append_additions(right, parts, part, finished + 1, additions);
}

std::vector<LeafRange> single_leaves(int leaves) {
  std::vector<LeafRange> parts;
  for (int leaf = 0; leaf < leaves; ++leaf) parts.push_back({leaf, leaf + 1});
  return parts;
}

}  // namespace

ReductionTree::ReductionTree(int leaves) : ReductionTree(leaves, single_leaves(leaves)) {}

ReductionTree::ReductionTree(int leaves, std::vector<LeafRange> parts)
    : leaves_(leaves), parts_(std::move(parts)) {
  check_argument(leaves >= 1, "A ReductionTree of ", leaves, " leaves: it has at least one.");
  additions_.reserve(parts_.size());
  std::size_t part = 0;
  append_additions({0, leaves}, parts_, part, 0, additions_);
  check_argument(part == parts_.size(), "A ReductionTree of ", leaves, " leaves has ", part,
                 " of the given parts, and ", parts_.size() - part, " are beyond.");
  measure_stack();
}

ReductionTree ReductionTree::chain(int leaves) {
  ReductionTree tree(leaves);
  tree.additions_.assign(tree.parts_.size(), 1);
  tree.additions_.front() = 0;
  tree.measure_stack();
  return tree;
}

void ReductionTree::measure_stack() {
  stack_size_ = 0;
  int size = 0;
  for (const int additions : additions_) {
    stack_size_ = std::max(stack_size_, ++size);
    size -= additions;
  }
}

// An addition of two sums follows the last part of the right one. The parts after that one, if any,
// add nothing.
std::vector<int> ReductionTree::additions_of(const std::vector<bool>& is_present) const {
  std::vector<int> additions(parts_.size(), -1);
  std::vector<bool> stack;
  std::size_t last = 0;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    stack.push_back(is_present[part]);
    if (is_present[part]) {
      last = part;
      additions[part] = 0;
    }
    for (int i = 0; i < additions_[part]; ++i) {
      const bool right = stack.back();
      stack.pop_back();
      if (right && stack.back()) ++additions[last];
      stack.back() = stack.back() || right;
    }
  }
  return additions;
}

std::pair<LeafRange, LeafRange> ReductionTree::children(LeafRange node) {
  const int middle =
      node.begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(node.size() - 1)));
  return {{node.begin, middle}, {middle, node.end}};
}

std::vector<LeafRange> ReductionTree::whole_subtrees(int leaves, LeafRange block) {
  check_argument(0 <= block.begin && block.begin < block.end && block.end <= leaves,
                 "The block of leaves [", block.begin, ", ", block.end,
                 ") is empty or not in a ReductionTree of ", leaves, " leaves.");
  std::vector<LeafRange> subtrees;
  append_subtrees({0, leaves}, block, subtrees);
  return subtrees;
}

}  // namespace brigade::comm
