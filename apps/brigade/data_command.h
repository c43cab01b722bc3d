#pragma once

#include <memory>

#include "apps/brigade/command.h"

namespace brigade::command {

/// `brigade data stats`: runs a training's input pipeline without the training, and shows what each
/// step of it does.
std::unique_ptr<Command> make_data_command(CLI::App& parent);

}  // namespace brigade::command
