#pragma once

#include <string>
#include <vector>

namespace brigade::command {

/// Throws UsageError, naming the flag, if one is given an empty value (`--key-file ""`,
/// `--key-file=`): a shell variable that is not set must not mean that the flag is not given. No
/// flag of any command accepts an empty value. Arguments after "--" belong to another program.
void check_no_empty_values(const std::vector<std::string>& arguments);

}  // namespace brigade::command
