#pragma once

#include <string>
#include <vector>

namespace brigade::command {

/// The arguments with those of the file that `--config FILE` names put in front of the others, so
/// that a flag on the command line counts more than one in the file. The file has lines
/// `flag = value` (TOML), with the flags' names without dashes. Arguments after "--" belong to
/// another program. Throws UsageError for a file that cannot be read, a section, or a value that is
/// no single one.
std::vector<std::string> with_config_file(std::vector<std::string> arguments);

}  // namespace brigade::command
