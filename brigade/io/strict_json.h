#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace brigade::io {

/// JSON from a file that nobody vouches for: `text` as a value, with no key twice in an object and
/// nothing nested more than `deepest` levels. Otherwise calls `fail`, which must throw, with what
/// is wrong, and for a syntax error with its line and column. Thread-safety: a pure function.
nlohmann::json parse_strict_json(std::string_view text, std::size_t deepest,
                                 const std::function<void(const std::string& why)>& fail);

}  // namespace brigade::io
