#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace brigade::io {

/// Whether the bytes begin as gzip does (1f 8b).
bool is_gzip(std::string_view bytes);

/// The content of a gzip file, held in memory as a whole. Files made of several gzip members, one
/// after the other, are read to the end, as `gzip -d` does; so are zero bytes after the last one.
/// `name` says in errors which file it was. At most `max_bytes` are produced, and the memory held
/// stays within a small multiple of that, whatever the file claims.
///
/// Throws kInvalidArgument if the bytes do not begin as gzip does; kDataLoss if they are cut short
/// or broken (checksum and length are checked) or something else follows; kResourceExhausted if
/// there is more content than `max_bytes`.
std::string gunzip(std::string_view compressed, std::string_view name, std::size_t max_bytes);

}  // namespace brigade::io
