#pragma once

#include <string_view>

namespace brigade::summary {

/// Whether `text` is UTF-8: whole, shortest forms, no surrogates, nothing beyond U+10FFFF. What
/// protobuf and JSON call text must be; readers in other languages refuse the rest.
bool is_utf8(std::string_view text);

/// Throws kInvalidArgument, naming `what`, unless `text` is UTF-8.
void check_utf8(std::string_view text, std::string_view what);

}  // namespace brigade::summary
