#pragma once

#include <string>

#include "apps/brigade/report.h"
#include "apps/brigade/train_flags.h"
#include "apps/brigade/train_setup.h"

namespace brigade::command {

/// Checks that all workers were started for the same training, before anything is written. They
/// compare everything that determines values or collectives (model, data, optimizer, steps,
/// evaluations, checkpoints, the version of the program). File locations, threads and logging may
/// differ. A collective of the workers; throws kInvalidArgument in all of them, naming the first
/// difference with both values.
void check_same_training(const TrainFlags& flags, const Prepared& prepared,
                         const Json& configuration);

/// Checks that all workers end with the same weights. Throws in all of them, including the chief.
/// A collective.
void check_same_weights(const distribute::Strategy& strategy, const std::string& weights_sha256);

}  // namespace brigade::command
