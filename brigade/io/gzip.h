#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace brigade::io {

/// Whether the bytes begin with gzip's signature (1f 8b).
bool is_gzip(std::string_view bytes);

/// The decompressed content of a gzip file in memory. Files of several gzip members are read to the
/// end, as by `gzip -d`; zero bytes after the last member are allowed. `name` identifies the file
/// in errors. The content has at most `max_bytes`, and the memory used stays within a small
/// multiple of that, whatever the file claims.
///
/// Throws kInvalidArgument if the bytes do not begin with gzip's signature; kDataLoss if they are
/// truncated, corrupt (checksum and length are verified) or followed by other data;
/// kResourceExhausted if there is more content than `max_bytes`.
std::string gunzip(std::string_view compressed, std::string_view name, std::size_t max_bytes);

}  // namespace brigade::io
