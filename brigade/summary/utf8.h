#pragma once

#include <string_view>

namespace brigade::summary {

/// Whether `text` is valid UTF-8: complete characters, shortest forms, no surrogates, nothing
/// beyond U+10FFFF. Strings of protobuf and JSON must be; readers in other languages refuse
/// anything else.
bool is_utf8(std::string_view text);

/// Throws kInvalidArgument, naming `what`, unless `text` is UTF-8.
void check_utf8(std::string_view text, std::string_view what);

}  // namespace brigade::summary
