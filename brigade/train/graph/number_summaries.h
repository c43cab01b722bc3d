#pragma once

#include <cstdint>

#include "brigade/summary/summary_writer.h"
#include "brigade/train/session/step_values.h"

namespace brigade::train {

/// Writes each scalar of `values` under its name.
void write_numbers(summary::SummaryWriter& summaries, std::int64_t step, const StepValues& values);

}  // namespace brigade::train
