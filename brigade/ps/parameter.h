#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "brigade/concurrency/ticket_mutex.h"
#include "brigade/optim/update_rule.h"

namespace brigade::ps {

/// One variable of a server: its value, its optimizer slots and how often it was updated. Reads and
/// changes happen in the order of their tickets, so the value follows from the order of updates
/// alone, whichever threads apply them.
///
/// A value whose update failed in the middle is not what the log says, so all later calls throw
/// kFailedPrecondition.
///
/// Thread-safety: any thread; each call of `update`, `read` and `state` takes one ticket of
/// `order()`.
class Parameter {
 public:
  /// Everything that a snapshot keeps of it.
  struct State {
    at::Tensor value;
    std::vector<at::Tensor> slots;  ///< in the order of the rule's
    std::int64_t updates = 0;
  };
  struct Reading {
    at::Tensor value;          ///< a copy
    std::int64_t updates = 0;  ///< that it contains: its version
  };

  /// Owns the tensors of `state`. Slots that are missing have their initial values.
  Parameter(State state, bool is_trainable, const optim::UpdateRule& rule);

  bool is_trainable() const { return is_trainable_; }
  at::IntArrayRef sizes() const { return state_.value.sizes(); }
  at::ScalarType dtype() const { return state_.value.scalar_type(); }
  concurrency::TicketMutex& order() const { return order_; }

  /// Applies one update of `rule`. `gradient` is contiguous, with the value's shape and dtype.
  void update(std::uint64_t ticket, const optim::UpdateRule& rule, const at::Tensor& gradient,
              const optim::Hyperparameters& hyperparameters);
  Reading read(std::uint64_t ticket) const;
  /// A copy of everything.
  State state(std::uint64_t ticket) const;

 private:
  void check_usable() const;

  const bool is_trainable_;
  mutable concurrency::TicketMutex order_;
  State state_;              // guarded by order_; sizes and dtype never change
  bool has_failed_ = false;  // guarded by order_
};

}  // namespace brigade::ps
