#pragma once

#include <string_view>

#include "brigade/comm/worker_facts.h"
#include "brigade/distribute/input/workers.h"

namespace brigade::distribute {

/// What is compared, for the message: "optimizers", "make the same optimizer in every worker".
struct Compared {
  std::string_view what;
  std::string_view advice;
};

/// Proves that all workers were told the same, before they do together what depends on it: workers
/// that compute different updates end with different weights, and workers that count steps
/// differently wait for each other for ever. Use it wherever a program hands over options that
/// every worker must share; list what decides values or calls, and leave out what is a worker's own
/// business (where files lie, what is logged).
///
/// A collective of the workers, outside of `Strategy::run`; nothing if `workers` is null. Throws
/// kInvalidArgument in every worker if one has another fact than worker 0, naming the first that
/// differs, both workers and both values.
void check_agreement(const Workers* workers, const comm::Facts& own, const Compared& compared);

}  // namespace brigade::distribute
