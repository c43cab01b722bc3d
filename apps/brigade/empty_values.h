#pragma once

#include <string>
#include <vector>

namespace brigade::command {

/// Throws UsageError, naming the flag, where one is given an empty value (`--key-file ""`,
/// `--key-file=`): a shell variable that is not set must not mean that the flag is not given. No
/// flag of any command has a use for an empty value. Words behind "--" are another program's.
void check_no_empty_values(const std::vector<std::string>& arguments);

}  // namespace brigade::command
