#pragma once

#include <memory>

#include "apps/brigade/command.h"

namespace brigade::command {

/// `brigade doctor`: says what this process's environment means, and tries a cluster's addresses.
std::unique_ptr<Command> make_doctor_command(CLI::App& parent);

}  // namespace brigade::command
