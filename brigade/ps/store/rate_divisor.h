#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "brigade/optim/update_rule.h"
#include "brigade/ps/store/update_record.h"

/// By what the learning rate of a push is divided because of its staleness
/// (`JobConfig::staleness_aware`), and how a record of the log has it (docs/formats.md, "Updates").
namespace brigade::ps {

/// The divisor of a push of this staleness: at least 1. A push of unknown staleness is not stale.
std::int64_t rate_divisor_of(std::optional<std::int64_t> staleness);

/// `hyperparameters` with their rate divided: the same bits for the push and for its replay.
optim::Hyperparameters divided(optim::Hyperparameters hyperparameters, std::int64_t divisor);

/// Adds a divisor to the record of a push, as its last tensor, and returns it: one int64, which is
/// set later, before the record is written. A push is encoded before it is known how stale it is.
at::Tensor add_rate_divisor(UpdateRecord& push);
/// Takes the divisor out of a record that was read: 1 if it has none. Throws kDataLoss for one that
/// `add_rate_divisor` cannot have written.
std::int64_t take_rate_divisor(UpdateRecord& push);

}  // namespace brigade::ps
