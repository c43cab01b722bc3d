#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "brigade/base/error.h"

/// What a fuzz target defines: it gives the bytes to a parser, which may take them or throw
/// brigade::Error. Anything else that happens (another exception, a sanitizer's report, a failed
/// `require`) is a finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace brigade::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Calls the parser; false if it refused what it was given.
template <class F>
bool accepts(F parser) {
  try {
    parser();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Ends the process, which is how a target reports a law that was broken.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace brigade::fuzz
