#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace brigade::io {

/// Parses JSON from an untrusted file: `text` is one value, with nothing after it, without a
/// byte-order mark, without duplicate keys in an object and without nesting of more than `deepest`
/// levels. Otherwise calls `fail`, which must throw, with a description of the error, and for a
/// syntax error with its line and column. Thread-safety: a pure function.
nlohmann::json parse_strict_json(std::string_view text, std::size_t deepest,
                                 const std::function<void(const std::string& why)>& fail);

/// Describes invalid content that the JSON parser would silently ignore, or nothing: a byte-order
/// mark at the beginning, or a NUL byte, at which the parser would stop. For code that parses JSON
/// without `parse_strict_json`.
std::optional<std::string> not_json(std::string_view text);

}  // namespace brigade::io
