#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/concurrency/ticket_mutex.h"
#include "brigade/optim/update_rule.h"
#include "brigade/ps/store/row_gradient.h"

namespace brigade::ps {

/// One variable of a server: its value, its optimizer slots and how often it was updated. Reads and
/// changes happen in the order of their tickets, so the value follows from the order of updates
/// alone, whichever threads apply them.
///
/// A value whose update failed in the middle is not what the log says, so all later calls throw
/// kFailedPrecondition.
///
/// Thread-safety: any thread; each call of `update`, `update_rows`, `assign`, `read`, `read_rows`
/// and `state` takes one ticket of `order()`.
class Parameter {
 public:
  /// What its creation decides.
  struct Settings {
    bool is_trainable = true;
    /// Of its parameter group; unset: those of the rule, and of `set_learning_rate`.
    std::optional<double> learning_rate = std::nullopt;
    std::optional<double> weight_decay = std::nullopt;
    friend bool operator==(const Settings&, const Settings&) = default;
  };
  /// Everything that a snapshot keeps of it, besides.
  struct State {
    at::Tensor value;
    std::vector<at::Tensor> slots;  ///< in the order of the rule's
    std::int64_t updates = 0;
  };
  struct Reading {
    at::Tensor value;          ///< the copy
    std::int64_t updates = 0;  ///< that it contains: its version
  };

  /// Owns the tensors of `state`. Slots that are missing have their initial values.
  Parameter(State state, Settings settings, const optim::UpdateRule& rule);

  const Settings& settings() const { return settings_; }
  bool is_trainable() const { return settings_.is_trainable; }
  /// Of its next update: its own, or those of the rule at this learning rate.
  optim::Hyperparameters hyperparameters(const optim::UpdateRule& rule, double learning_rate) const;
  /// Needs no ticket, nor do the next two: an assignment does not change them.
  at::IntArrayRef sizes() const { return sizes_; }
  at::ScalarType dtype() const { return dtype_; }
  /// Of its value; each slot has as many.
  std::uint64_t bytes() const { return bytes_; }
  /// Of so many rows of its value.
  std::vector<std::int64_t> sizes_of_rows(std::int64_t rows) const;
  /// Of a row of its value; 0 for a scalar.
  std::uint64_t row_bytes() const;
  concurrency::TicketMutex& order() const { return order_; }

  /// Applies one update of `rule`. `gradient` is contiguous, with the value's shape and dtype.
  void update(std::uint64_t ticket, const optim::UpdateRule& rule, const at::Tensor& gradient,
              const optim::Hyperparameters& hyperparameters);
  /// Applies one update of `rule` to some rows (`optim::apply_rows`). `gradient` was checked
  /// (`check_rows`), is of rows, and contiguous.
  void update_rows(std::uint64_t ticket, const optim::UpdateRule& rule,
                   const VariableGradient& gradient, const optim::Hyperparameters& hyperparameters);
  /// One of both.
  void update(std::uint64_t ticket, const optim::UpdateRule& rule, const VariableGradient& gradient,
              const optim::Hyperparameters& hyperparameters);
  /// Replaces everything, and owns the tensors of `state`: of the shape and dtype that the value
  /// has, and with all slots.
  void assign(std::uint64_t ticket, State state);
  /// Writes the value to `copy`, which is contiguous, and of its shape and dtype. `whole`: how many
  /// bytes of values are read together.
  Reading read(std::uint64_t ticket, at::Tensor copy, std::uint64_t whole = 0) const;
  /// Writes these rows, which exist, to `copy`, which is contiguous, of `sizes_of_rows` and the
  /// value's dtype. Returns it.
  at::Tensor read_rows(std::uint64_t ticket, const at::Tensor& indices, at::Tensor copy) const;
  /// A copy of everything.
  State state(std::uint64_t ticket) const;

 private:
  void check_usable() const;

  const Settings settings_;
  mutable concurrency::TicketMutex order_;
  State state_;  // guarded by order_
  // Of its value. An assignment replaces the tensor while others look at these.
  const std::vector<std::int64_t> sizes_;
  const at::ScalarType dtype_;
  const std::uint64_t bytes_;
  bool has_failed_ = false;  // guarded by order_
};

/// The slots that `rule` has for a trainable variable before its first update.
std::vector<at::Tensor> initial_slots(const at::Tensor& value, const optim::UpdateRule& rule);

/// A variable with everything that a checkpoint has of it.
struct NamedState {
  std::string name;
  Parameter::State state;
};

/// The variables of a server, by name.
using Parameters = std::map<std::string, std::unique_ptr<Parameter>, std::less<>>;

}  // namespace brigade::ps
