#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <utility>
#include <vector>

#include "brigade/comm/reduction_tree.h"
#include "brigade/variables/deferred_gradient.h"

namespace brigade::distribute {

/// One replica's gradients, one part for each variable: neither a value nor deferred if there is
/// none.
using ReplicaGradients = std::vector<variables::GradientPart>;

ReplicaGradients to_parts(std::vector<at::Tensor> values);
/// Their values, without those that are deferred.
std::vector<at::Tensor> values_of(const ReplicaGradients& gradients);
/// Their values; those that are deferred are computed.
std::vector<at::Tensor> computed(ReplicaGradients gradients);

/// The sum of `parts`, the parts of `tree`, in its order: the same bits whether parts are values or
/// deferred. Values are dense and contiguous, and deferred ones are made so. A part without either
/// adds nothing; if none adds anything, the sum is undefined. It is made in place in a value that
/// nobody else refers to, so pass the parts by moving them.
at::Tensor sum_of_parts(std::vector<variables::GradientPart> parts,
                        const comm::ReductionTree& tree);

/// The same sum, made in pieces: of large values a piece is a range of elements. So several threads
/// can make it together.
///
/// Thread-safety: `make` from several threads, for different pieces.
class SumInPieces {
 public:
  SumInPieces(std::vector<variables::GradientPart> parts, comm::ReductionTree tree);

  int pieces() const { return pieces_; }
  /// Each piece once.
  void make(int piece);
  /// When all pieces are made.
  at::Tensor take() { return std::move(sum_); }

 private:
  std::vector<variables::GradientPart> parts_;  // if there is one piece
  std::vector<at::Tensor> values_;              // otherwise
  const comm::ReductionTree tree_;
  int pieces_ = 1;
  at::Tensor sum_;
};

}  // namespace brigade::distribute
