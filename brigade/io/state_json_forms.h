#pragma once

#include <cstdint>
#include <string_view>

// The format shared by the writer and the reader of state JSON. Internal.
namespace brigade::io::state_json {

// Strings that begin with '$' have a special meaning: see docs/formats.md.
inline constexpr std::string_view kUint64Tag = "$uint64:";
inline constexpr std::string_view kInt64Tag = "$int64:";
inline constexpr std::string_view kDoubleTag = "$double:";
inline constexpr std::string_view kBytesTag = "$bytes:";
inline constexpr std::string_view kArrayTag = "$array:";
inline constexpr std::string_view kTextTag = "$$";

/// The largest integer n such that programs with only doubles read every integer up to n exactly.
inline constexpr std::int64_t kExactInDouble = (std::int64_t{1} << 53) - 1;
inline constexpr std::uint64_t kPlainNan = 0x7ff8000000000000u;

}  // namespace brigade::io::state_json
