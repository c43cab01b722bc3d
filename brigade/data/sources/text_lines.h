#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/io/compression.h"
#include "brigade/io/file_system.h"

namespace brigade::data {

/// Options of `text_lines`.
struct TextLinesOptions {
  /// The compression of the files. By default gzip files are detected from their first bytes.
  io::Compression compression = io::Compression::kAuto;
  /// Number of bytes read from a file at a time.
  std::size_t buffer_bytes = 256 << 10;
  /// A longer line is one element that fails, so that memory use is bounded.
  std::size_t max_line_bytes = std::size_t{64} << 20;
  /// The file system. Unset: the local one.
  std::shared_ptr<const io::FileSystem> file_system{};
};

/// The lines of text files, one file after another, without the "\n" or "\r\n" at their ends. Empty
/// lines are elements, and the last line needs no line end. Bytes are returned unchanged, in any
/// encoding.
///
/// It can be sharded by files, as `from_files`. The saved position is a byte offset: restoring
/// seeks to it directly; a compressed file is decompressed up to it. `next()` throws, naming the
/// file and the byte, kResourceExhausted for a line that is too long, and kDataLoss where a
/// compressed file is corrupt, which ends the file. Throws kInvalidArgument if there are no files.
///
/// TensorFlow counterpart: tf.data.TextLineDataset, which also drops "\r" inside of lines.
Dataset<std::string> text_lines(std::vector<io::Path> paths, const TextLinesOptions& options = {});

}  // namespace brigade::data
