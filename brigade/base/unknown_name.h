#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::base {

/// "; did you mean 'adam'?" for an error about the unknown `name`, with the candidate that
/// `nearest` finds; `otherwise` if there is none.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates,
                         std::string_view otherwise = "");

/// The error for a name that is not in a table, kInvalidArgument:
///
///     throw unknown_name("loss", name, "Losses", loss_names());
///
/// says "No loss is called 'mas'; did you mean 'mae'? Losses: mae, mse."
Error unknown_name(std::string_view kind, std::string_view name, std::string_view title,
                   const std::vector<std::string>& known);

}  // namespace brigade::base
