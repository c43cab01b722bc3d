#pragma once

#include "apps/brigade/train_flags.h"

namespace brigade::command {

/// The evaluator of a cluster (the task of that type in `TF_CONFIG`). It takes no part in the
/// workers' collectives. On one device, it evaluates each checkpoint that the training writes into
/// its model directory, and ends when the training has ended. Its results go to the event files in
/// `eval/`, and to standard output with --json. Returns the exit code.
int run_evaluator(const TrainFlags& flags);

}  // namespace brigade::command
