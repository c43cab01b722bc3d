#pragma once

#include <memory>

#include "apps/brigade/command.h"

namespace brigade::command {

/// `brigade bench`: measures the speed of training steps on data in memory.
std::unique_ptr<Command> make_bench_command(CLI::App& parent);

}  // namespace brigade::command
