#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// A parameter whose gradient has some rows and is zero elsewhere: an embedding table.
struct RowUpdateArguments {
  at::Tensor parameter;           ///< [rows, ...], contiguous
  std::vector<at::Tensor> slots;  ///< as the parameter, in the order of `UpdateRule::slots`
  at::Tensor indices;             ///< int64 [n], ascending, each once, of rows that exist
  at::Tensor gradients;           ///< [n, ...], contiguous, of the parameter's dtype
  std::int64_t step = 1;          ///< this update's number, from 1
};

/// Updates these rows and their slots in place, and no others. The rows get the same bits as from
/// `rule.apply` on the whole parameter with zeros for the other rows' gradients. If the rule is
/// `RowUpdates::kExact` and there is no weight decay, so do all others; otherwise the update is
/// lazy: rows without a gradient keep their values and slots, and do not decay. The calling thread
/// must not record gradients. Throws kUnimplemented for a rule that needs whole variables: make the
/// gradient dense.
void apply_rows(const UpdateRule& rule, const RowUpdateArguments& arguments,
                const Hyperparameters& hyperparameters);

}  // namespace brigade::optim
