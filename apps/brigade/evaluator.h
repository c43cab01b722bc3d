#pragma once

#include "apps/brigade/train_flags.h"

namespace brigade::command {

/// The evaluator of a cluster (`TF_CONFIG`'s task of that type): outside of the workers'
/// collective, on one device, it evaluates each checkpoint that the training writes into its model
/// directory, and ends when the training has. Its figures go to the event files in `eval/`, and to
/// standard output with --json. Returns the exit code.
int run_evaluator(const TrainFlags& flags);

}  // namespace brigade::command
