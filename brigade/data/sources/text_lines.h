#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/io/compression.h"
#include "brigade/io/file_system.h"

namespace brigade::data {

struct TextLinesOptions {
  /// How the files are packed. By default gzip files are known by their beginning.
  io::Compression compression = io::Compression::kAuto;
  /// Read from a file at a time.
  std::size_t buffer_bytes = 256 << 10;
  /// A longer line fails, as one element: no file can make the reader take more memory than this.
  std::size_t max_line_bytes = std::size_t{64} << 20;
  /// Where the files lie. Unset: on this machine.
  std::shared_ptr<const io::FileSystem> file_system{};
};

/// The lines of text files, one file after another, without the "\n" or "\r\n" at their ends. Empty
/// lines are elements, and the last line needs no end. Bytes are taken as they are, whatever their
/// encoding.
///
/// Workers can share it out by files, as `from_files`. The saved position is a number of bytes:
/// restoring goes there at once, in a packed file by unpacking up to there. `next()` throws, naming
/// the file and the byte, kResourceExhausted for a line that is too long, and kDataLoss where a
/// packed file is broken, which ends the file. Throws kInvalidArgument if there are no files.
///
/// TensorFlow counterpart: tf.data.TextLineDataset, which also drops "\r" inside of lines.
Dataset<std::string> text_lines(std::vector<io::Path> paths, const TextLinesOptions& options = {});

}  // namespace brigade::data
