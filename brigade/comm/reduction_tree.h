#pragma once

#include <span>
#include <utility>
#include <vector>

namespace brigade::comm {

/// Consecutive leaves of a ReductionTree: from `begin` up to `end`.
struct LeafRange {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  friend bool operator==(const LeafRange&, const LeafRange&) = default;
};

/// The order in which values are added: a binary tree whose leaves are the ranks' values. The value
/// of a node is the sum of its left and its right child. A node of several leaves is split after
/// the largest power of two below its number of leaves:
///
///   3: (0 + 1) + 2      4: (0 + 1) + (2 + 3)      6: ((0 + 1) + (2 + 3)) + (4 + 5)
///
/// Floating-point sums depend on the order of additions. This order depends on the number of leaves
/// alone, so the bits of a sum do not depend on which process holds which leaves: a process adds
/// the leaves of whole subtrees (`whole_subtrees`), and whoever has the sums of all subtrees, the
/// parts, makes the additions that remain. The rounding error grows with the logarithm of the
/// number of leaves, in a chain of additions with the number itself.
///
/// Thread-safety: a value.
class ReductionTree {
 public:
  /// Every leaf is a part. Throws kInvalidArgument if `leaves` is less than 1.
  explicit ReductionTree(int leaves);
  /// The sums of these subtrees are known. Throws kInvalidArgument unless `parts` are subtrees, in
  /// order, that contain each leaf once.
  ReductionTree(int leaves, std::vector<LeafRange> parts);

  /// Another tree: ((0 + 1) + 2) + 3. So are values added that come one after another, to a sum
  /// that is kept. Every leaf is a part. Throws kInvalidArgument if `leaves` is less than 1.
  static ReductionTree chain(int leaves);

  int leaves() const { return leaves_; }
  std::span<const LeafRange> parts() const { return parts_; }

  /// The largest subtrees whose leaves are all in `block`, in order; together they contain each of
  /// its leaves once. A block of n leaves has at most 2 log2(n) of them, and one if it is a
  /// subtree, as an aligned block of a power of two leaves is. Throws kInvalidArgument if `block`
  /// is empty or not in [0, leaves).
  static std::vector<LeafRange> whole_subtrees(int leaves, LeafRange block);

  /// The children of a node of several leaves.
  static std::pair<LeafRange, LeafRange> children(LeafRange node);

  /// How to evaluate the tree with a stack: for each part in order, push its value; then, this
  /// number of times, replace the two last values by their sum. The last value left is the result.
  int additions_after(std::size_t part) const { return additions_[part]; }
  /// The most values that are on the stack at the same time: at most log2(number of parts) + 1,
  /// rounded up.
  int stack_size() const { return stack_size_; }

  /// What `evaluate` does if only some parts add anything: the number of additions after each of
  /// those, -1 for the others. `is_present`: [part].
  std::vector<int> additions_of(const std::vector<bool>& is_present) const;

  /// The value of the tree: `values[i]` is that of part i, and `add(left, right)` returns a sum.
  template <class Value, class Add>
  Value evaluate(std::span<const Value> values, const Add& add) const {
    std::vector<Value> stack;
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      stack.push_back(values[part]);
      for (int i = 0; i < additions_[part]; ++i) {
        Value right = std::move(stack.back());
        stack.pop_back();
        stack.back() = add(std::move(stack.back()), std::move(right));
      }
    }
    return std::move(stack.back());
  }

 private:
  /// Sets `stack_size_`.
  void measure_stack();

  int leaves_;
  std::vector<LeafRange> parts_;
  std::vector<int> additions_;  // [part]
  int stack_size_ = 0;
};

}  // namespace brigade::comm
