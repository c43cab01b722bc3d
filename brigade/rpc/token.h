#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace brigade::rpc {

/// 256 bits, which cannot be guessed.
inline constexpr std::size_t kTokenBytes = 32;

/// A new token, from the system's random source. Throws kUnavailable if that fails.
std::string make_token();

/// Whether both are the same token. Compares in constant time. Texts that do not have a token's
/// length are never the same.
bool is_same_token(std::string_view one, std::string_view other);

}  // namespace brigade::rpc
