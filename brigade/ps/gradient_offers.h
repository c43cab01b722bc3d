#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/coordination/step_decider.h"

namespace brigade::ps {

/// The gradients that workers have given a server for steps of synchronous training that are not
/// decided. Copies share the tensors, which nobody changes.
///
/// Thread-safety: one thread; a copy may be used by another.
class GradientOffers {
 public:
  /// One worker's gradients of the variables that this server has: maybe of none.
  struct Offer {
    std::int64_t step = 0;
    coordination::Contribution from;
    std::shared_ptr<const std::vector<checkpoint::NamedTensor>> gradients;
  };

  /// Keeps `offer`, instead of an earlier one with its step and contribution.
  void put(Offer offer);
  /// The gradients that `decision` names, in its order, for each variable that has any. Throws
  /// kFailedPrecondition, naming the worker, for a contribution that is missing.
  std::map<std::string, std::vector<at::Tensor>> gradients_of(
      const coordination::StepDecision& decision) const;
  bool has(std::int64_t step, const coordination::Contribution& from) const;
  /// Drops all of steps before `step`.
  void drop_before(std::int64_t step);

  /// Of all gradients.
  std::uint64_t bytes() const;
  /// Ordered by step and contribution.
  std::vector<Offer> offers() const;

 private:
  std::map<std::pair<std::int64_t, coordination::Contribution>, Offer> offers_;
};

/// The sum of dense gradients of one shape and dtype, in this order; at least one. Half and
/// bfloat16 are added in float32 and rounded once. A single gradient is returned as it is.
at::Tensor sum_in_order(std::span<const at::Tensor> gradients);

}  // namespace brigade::ps
