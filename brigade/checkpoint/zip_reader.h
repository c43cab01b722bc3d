#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace brigade::checkpoint {

/// The entries of a zip archive in memory, for PyTorch's files: entries without compression, zip64
/// included. Compressed entries (the code in C++ archives) are allowed but cannot be read. The
/// constructor verifies that all entries are inside the archive and do not overlap, so together
/// they are no larger than the archive.
///
/// Thread-safety: an immutable value. It refers to the archive's bytes, which must outlive it.
class ZipReader {
 public:
  /// Throws kDataLoss naming `file` for an invalid archive.
  ZipReader(std::string_view archive, std::string_view file);

  bool has(std::string_view name) const { return entries_.contains(name); }
  /// The bytes of an entry, after their checksum is verified. Throws kDataLoss if the entry is
  /// missing or corrupt, kUnimplemented for one that is compressed or encrypted.
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
