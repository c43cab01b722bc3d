#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "brigade/io/file_system.h"

namespace brigade::io {

/// How the bytes of a file are packed.
enum class Compression {
  kNone,
  kGzip,  ///< TensorFlow's "GZIP": what `gzip` writes, also several members one after the other.
  kZlib,  ///< TensorFlow's "ZLIB" (RFC 1950).
  kAuto,  ///< To read: gzip if the file begins as gzip does (1f 8b 08), otherwise as it is. For
          ///< text only: a file of numbers may begin with these bytes by chance.
};

/// "none", "gzip", "zlib", "auto".
std::string_view to_string(Compression compression);

/// The content of a file, unpacked as it is read, in bounded memory; `kNone` gives back the file
/// itself. `seek` of a packed file reads up to the place asked for, from the beginning if that lies
/// behind. `name` says in errors which file it is. What has been read passed the checksums of all
/// members but the one being read.
///
/// `read` throws kDataLoss, naming the file and the place, if the packed bytes are broken, cut
/// short, or followed by others (zeros may follow); an empty file is cut short. The content before
/// that place comes first, so fewer bytes than asked for are no sign of the end: none are.
std::unique_ptr<ReadableFile> decompressed(std::unique_ptr<ReadableFile> file, std::string name,
                                           Compression compression);

struct CompressorOptions {
  /// 1 packs fastest, 9 smallest, 0 not at all.
  int level = 6;
  /// Packed bytes are handed on when there are so many.
  std::size_t buffer_bytes = 64 << 10;
};

/// A file whose content is packed as it is written; `kNone` gives back the file itself. `close`
/// writes the end: without it the file is cut short. `sync` ends a block, so that all content
/// before it can be read from what is on the disk; used often, it makes files larger. Throws
/// kInvalidArgument for kAuto and levels outside 0 to 9.
std::unique_ptr<WritableFile> compressed(std::unique_ptr<WritableFile> file,
                                         Compression compression, CompressorOptions options = {});

}  // namespace brigade::io
