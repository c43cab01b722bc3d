#pragma once

#include <memory>

#include "apps/brigade/command.h"

namespace brigade::command {

/// `brigade devices`: shows the devices of this machine.
std::unique_ptr<Command> make_devices_command(CLI::App& parent);

}  // namespace brigade::command
