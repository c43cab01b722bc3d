#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace brigade::checkpoint {

/// The entries of a zip archive that lies in memory, as far as PyTorch's files need it: stored
/// without compression, zip64 included. Compressed ones (the code in C++ archives) may be there,
/// and cannot be read. When this is made, everything is checked to lie within the archive, and no
/// byte in two entries: together they are no larger than the archive.
///
/// Thread-safety: a value. It refers to the archive's bytes, which must outlive it.
class ZipReader {
 public:
  /// Throws kDataLoss naming `file` for what is no sound archive.
  ZipReader(std::string_view archive, std::string_view file);

  bool has(std::string_view name) const { return entries_.contains(name); }
  /// The bytes of an entry, their sum compared. Throws kDataLoss if there is none or it is broken,
  /// kUnimplemented for one that is compressed or encrypted.
  std::string_view read(std::string_view name) const;

  struct Entry {
    std::string_view bytes;
    std::uint32_t crc32 = 0;
    std::string_view compression = {};  ///< "compressed", "encrypted"; empty: neither
  };
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }

 private:
  std::string file_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace brigade::checkpoint
