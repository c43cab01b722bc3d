#pragma once

#include "apps/brigade/report.h"

namespace brigade::command {

/// What `run.json` records of the machine and the build that train: host, system, processor, cores,
/// memory, GPUs, versions.
Json machine_facts();

}  // namespace brigade::command
