#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/coordination/step_decider.h"
#include "brigade/ps/store/row_gradient.h"

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
    std::shared_ptr<const std::vector<RowGradient>> rows = nullptr;  ///< null: none
  };

  /// Keeps `offer`, instead of an earlier one with its step and contribution.
  void put(Offer offer);
  /// The gradients that `decision` names, in its order, for each variable that has any. Throws
  /// kFailedPrecondition, naming the worker, for a contribution that is missing.
  std::map<std::string, std::vector<VariableGradient>> gradients_of(
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

}  // namespace brigade::ps
