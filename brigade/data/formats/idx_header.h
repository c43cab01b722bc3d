#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace brigade::data {

/// The header of an idx file of unsigned bytes.
struct IdxHeader {
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;          ///< of the header itself
  std::uint64_t value_bytes = 0;  ///< that follow it
};

/// The length in bytes of the header of an idx file with `dimensions` dimensions.
std::size_t idx_header_bytes(int dimensions);

/// Parses the header at the start of `beginning`: a magic number (0, 0, the type 0x08, the number
/// of dimensions), then each dimension as a big-endian 32-bit number. `name` is the file's name
/// in errors. Throws kInvalidArgument if `dimensions` is not 1 to 4 or the magic number does not
/// match, kDataLoss if `beginning` is shorter than the header.
IdxHeader parse_idx_header(std::string_view beginning, std::string_view name, int dimensions);

/// Throws kDataLoss: the file holds `found` instead of the number of values in its header.
[[noreturn]] void throw_wrong_idx_size(const IdxHeader& header, std::string_view name,
                                       std::string_view found);

}  // namespace brigade::data
