#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace brigade::data {

/// What the beginning of an idx file of unsigned bytes says, and the bytes that follow, which are
/// as many as it says.
///
/// Thread-safety: immutable. Lifetime: that of the bytes.
struct IdxContent {
  std::vector<std::int64_t> shape;
  std::string_view values;  ///< row-major
};

/// Reads the bytes of an idx file: a magic number (0, 0, the type 0x08, the number of dimensions),
/// each dimension as a big-endian 32-bit number, then the values. `name` says in errors which file
/// it was.
///
/// Throws kInvalidArgument if `dimensions` is not 1 to 4 or the magic number is another; kDataLoss
/// if the file is cut short, or longer than its dimensions say.
IdxContent parse_idx_bytes(std::string_view bytes, std::string_view name, int dimensions);

}  // namespace brigade::data
