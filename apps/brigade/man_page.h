#pragma once

#include <string>

namespace CLI {
class App;
}

namespace brigade::command {

/// The manual page of a command, for `man`, made of its parser; of the program itself if `command`
/// has no parent.
std::string man_page(const CLI::App& command);

}  // namespace brigade::command
