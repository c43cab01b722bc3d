#pragma once

#include "apps/brigade/data_flags.h"
#include "apps/brigade/model_flags.h"
#include "apps/brigade/report.h"

namespace brigade::command {

/// Fills in, from the configuration of a run.json, what the command line of `parser` leaves open of
/// the model and the data. Another model than the run's takes nothing of the model from it, another
/// dataset nothing of the data. A null `configuration` fills in nothing.
void fill_in(const Json& configuration, const CLI::App& parser, ModelFlags& model, DataFlags& data);

}  // namespace brigade::command
