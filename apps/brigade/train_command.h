#pragma once

#include <memory>

#include "apps/brigade/command.h"

namespace brigade::command {

/// `brigade train`: trains a model and saves its weights.
std::unique_ptr<Command> make_train_command(CLI::App& parent);

}  // namespace brigade::command
