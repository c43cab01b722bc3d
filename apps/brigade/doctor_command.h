#pragma once

#include <memory>

#include "apps/brigade/command.h"

namespace brigade::command {

/// `brigade doctor`: says which cluster the environment describes, and tries its addresses.
std::unique_ptr<Command> make_doctor_command(CLI::App& parent);

}  // namespace brigade::command
