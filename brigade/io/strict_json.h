#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace brigade::io {

/// JSON from a file that nobody vouches for: `text` as a value, with nothing behind it, no
/// byte-order mark before it, no key twice in an object and nothing nested more than `deepest`
/// levels. Otherwise calls `fail`, which must throw, with what is wrong, and for a syntax error
/// with its line and column. Thread-safety: a pure function.
nlohmann::json parse_strict_json(std::string_view text, std::size_t deepest,
                                 const std::function<void(const std::string& why)>& fail);

/// What JSON's parser would pass over in silence though no JSON may hold it, or nothing: a
/// byte-order mark at the beginning, and a NUL byte, at which it would stop reading. For whoever
/// parses JSON by another way than `parse_strict_json`.
std::optional<std::string> not_json(std::string_view text);

}  // namespace brigade::io
