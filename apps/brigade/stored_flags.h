#pragma once

#include "apps/brigade/data_flags.h"
#include "apps/brigade/model_flags.h"
#include "apps/brigade/report.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// Fills in flags of model and data that the command line of `parser` does not set, from the
/// configuration of a run.json. If the model differs from the run's, no flag of the model is filled
/// in; if the dataset differs, none of the data. A null `configuration` fills in nothing.
void fill_in(const Json& configuration, const CLI::App& parser, ModelFlags& model, DataFlags& data);

}  // namespace brigade::command
