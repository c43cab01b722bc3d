#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "brigade/base/error.h"

/// Defined by each fuzz target: passes the bytes to a parser, which may accept them or throw
/// brigade::Error. Anything else (another exception, a sanitizer's report, a failed `require`) is a
/// finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace brigade::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Calls the parser; false if it refused the input.
template <class F>
bool accepts(F parser) {
  try {
    parser();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Aborts the process, which is how a target reports a violated property.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace brigade::fuzz
