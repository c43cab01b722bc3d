#pragma once

#include <memory>

#include "apps/brigade/command.h"

namespace brigade::command {

/// `brigade inspect`: shows what a checkpoint holds, or how two differ.
std::unique_ptr<Command> make_inspect_command(CLI::App& parent);

}  // namespace brigade::command
