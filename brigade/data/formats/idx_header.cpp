#include "brigade/data/formats/idx_header.h"

#include <string>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

constexpr std::size_t kWordSize = 4;
constexpr std::uint32_t kUnsignedByte = 0x08;

std::uint32_t big_endian_word(std::string_view bytes, std::size_t index) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < kWordSize; ++i) {
    word = word << 8 | static_cast<unsigned char>(bytes[index * kWordSize + i]);
  }
  return word;
}

[[noreturn]] void throw_broken(std::string_view name, const std::string& problem) {
  throw Error(ErrorCode::kDataLoss, "The idx file ", name, " is broken: ", problem,
              "; fetch it again");
}

void check_magic(std::string_view bytes, std::string_view name, int dimensions) {
  const std::uint32_t expected = kUnsignedByte << 8 | static_cast<std::uint32_t>(dimensions);
  if (bytes.size() < kWordSize) {
    throw_broken(name, base::str_cat("it has ", bytes.size(), " bytes, the magic number alone has ",
                                     kWordSize));
  }
  const std::uint32_t magic = big_endian_word(bytes, 0);
  check_argument(magic == expected, "The file ", name, " has the magic number ", magic,
                 ", expected ", expected, " (an idx file of unsigned bytes in ", dimensions,
                 " dimensions, plain or gzip)");
}

std::vector<std::int64_t> read_shape(std::string_view bytes, std::string_view name,
                                     int dimensions) {
  const std::size_t header = idx_header_bytes(dimensions);
  if (bytes.size() < header) {
    throw_broken(name,
                 base::str_cat("it has ", bytes.size(), " bytes, the header alone has ", header));
  }
  std::vector<std::int64_t> shape;
  for (std::size_t i = 1; i <= static_cast<std::size_t>(dimensions); ++i) {
    shape.push_back(big_endian_word(bytes, i));
  }
  return shape;
}

/// The number of bytes of the values.
std::uint64_t size_of_values(const std::vector<std::int64_t>& shape, std::string_view name) {
  std::uint64_t size = 1;
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(size, static_cast<std::uint64_t>(dimension), &size)) {
      throw_broken(name, base::str_cat("its dimensions ", base::join(shape, "x"),
                                       " are more than can be counted"));
    }
  }
  return size;
}

}  // namespace

std::size_t idx_header_bytes(int dimensions) {
  check_argument(dimensions >= 1 && dimensions <= 4, "idx: ", dimensions,
                 " dimensions; 1 to 4 are read");
  return kWordSize * (1 + static_cast<std::size_t>(dimensions));
}

IdxHeader parse_idx_header(std::string_view beginning, std::string_view name, int dimensions) {
  const std::size_t bytes = idx_header_bytes(dimensions);
  check_magic(beginning, name, dimensions);
  IdxHeader header{.shape = read_shape(beginning, name, dimensions), .bytes = bytes};
  header.value_bytes = size_of_values(header.shape, name);
  return header;
}

void throw_wrong_idx_size(const IdxHeader& header, std::string_view name, std::string_view found) {
  throw_broken(name, base::str_cat("its dimensions ", base::join(header.shape, "x"), " need ",
                                   header.value_bytes, " bytes, but it holds ", found));
}

}  // namespace brigade::data
