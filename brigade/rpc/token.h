#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace brigade::rpc {

/// 256 bits, which nobody guesses.
inline constexpr std::size_t kTokenBytes = 32;

/// A new token, from the system's random source. Throws kUnavailable where that fails.
std::string make_token();

/// Whether both are the same token. The time that it takes does not tell where they differ; texts
/// of another length than a token's are never the same.
bool is_same_token(std::string_view one, std::string_view other);

}  // namespace brigade::rpc
