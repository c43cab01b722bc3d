#pragma once

#include <memory>

#include "apps/brigade/command.h"

namespace brigade::command {

/// `brigade evaluate`: evaluates saved weights on the test split.
std::unique_ptr<Command> make_evaluate_command(CLI::App& parent);

}  // namespace brigade::command
