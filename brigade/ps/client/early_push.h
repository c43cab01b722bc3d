#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

namespace brigade::ps {

/// A push of which gradients are sent, in an order that is known, before all of them are: which
/// they were, and how they traveled.
///
/// Thread-safety: one thread at a time.
class EarlyPush {
 public:
  /// The variables, of the placement, that the push is expected to have a gradient of, in the order
  /// in which they are sent.
  explicit EarlyPush(std::vector<std::size_t> order);

  const std::vector<std::size_t>& order() const { return order_; }
  /// Whether all are sent.
  bool is_done() const { return given_.size() == order_.size(); }
  /// The variable of the next gradient.
  std::size_t next() const { return order_[given_.size()]; }
  /// The gradient of the next variable, and what was sent of it.
  void add(at::Tensor gradient, at::Tensor sent);

  /// Whether a push of `gradients` has been begun by this: it has those of the variables, all
  /// dense, and no other; and those that were added are these tensors.
  bool begins(std::span<const at::Tensor> gradients) const;
  /// What was sent of the `i`-th of the order; undefined if nothing was.
  at::Tensor sent(std::size_t i) const { return i < sent_.size() ? sent_[i] : at::Tensor(); }

 private:
  std::vector<std::size_t> order_;
  std::vector<at::Tensor> given_;  // [i]: of order_[i]
  std::vector<at::Tensor> sent_;   // likewise
};

}  // namespace brigade::ps
