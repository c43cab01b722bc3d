#pragma once

#include <string>

#include "apps/brigade/report.h"
#include "apps/brigade/train_flags.h"
#include "apps/brigade/train_setup.h"

namespace brigade::command {

/// Proves that all workers were started for the same training, before anything is written: each
/// tells the others all that decides values or what they do together (model, data, optimizer,
/// steps, evaluations, checkpoints, the version of the program). Where files lie, threads and what
/// is logged are a worker's own. A collective of the workers; throws kInvalidArgument in all of
/// them, naming the first difference with both values.
void check_same_training(const TrainFlags& flags, const Prepared& prepared,
                         const Json& configuration);

/// All workers computed the same numbers, or one of them is broken: what they end with shows it.
/// Throws in all of them, the chief too. A collective.
void check_same_weights(const distribute::Strategy& strategy, const std::string& weights_sha256);

}  // namespace brigade::command
