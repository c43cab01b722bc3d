#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "brigade/io/file_system.h"

namespace brigade::io {

/// How a file is compressed.
enum class Compression {
  kNone,
  kGzip,  ///< TensorFlow's "GZIP": what `gzip` writes, including several members in a row.
  kZlib,  ///< TensorFlow's "ZLIB" (RFC 1950).
  kAuto,  ///< For reading: gzip if the file begins with gzip's signature (1f 8b 08), otherwise
          ///< uncompressed. For text only: a binary file may begin with these bytes by chance.
};

/// "none", "gzip", "zlib", "auto".
std::string_view to_string(Compression compression);

/// The content of a file, decompressed while it is read, in bounded memory; `kNone` returns the
/// file itself. `seek` in a compressed file reads up to the offset, from the beginning if it is
/// before the current one. `name` identifies the file in errors. The checksums of all members are
/// verified as soon as the member is read to its end.
///
/// `read` throws kDataLoss, naming the file and the offset, if the compressed bytes are corrupt,
/// truncated, or followed by other bytes (zeros may follow); an empty file counts as truncated. The
/// content before the error is returned first, so a short read does not mean the end of the file; a
/// read of 0 bytes does.
std::unique_ptr<ReadableFile> decompressed(std::unique_ptr<ReadableFile> file, std::string name,
                                           Compression compression);

/// Options of `compressed`.
struct CompressorOptions {
  /// 1 is fastest, 9 compresses best, 0 does not compress.
  int level = 6;
  /// Compressed bytes are written in pieces of this size.
  std::size_t buffer_bytes = 64 << 10;
};

/// A file whose content is compressed while it is written; `kNone` returns the file itself. `close`
/// writes the end: without it the file is truncated. `sync` ends a block, so that all content
/// before it can be read from the disk; frequent calls make files larger. Throws kInvalidArgument
/// for kAuto and levels outside 0 to 9.
std::unique_ptr<WritableFile> compressed(std::unique_ptr<WritableFile> file,
                                         Compression compression, CompressorOptions options = {});

/// Whether the bytes begin with gzip's signature (1f 8b).
bool is_gzip(std::string_view bytes);

}  // namespace brigade::io
