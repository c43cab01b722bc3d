#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/io/compression.h"
#include "brigade/io/file_system.h"

namespace brigade::data {

struct FixedLengthRecordsOptions {
  /// The length of each record: 1 or more.
  std::int64_t record_bytes = 0;
  /// What is left out at the beginning and at the end of each file.
  std::int64_t header_bytes = 0;
  std::int64_t footer_bytes = 0;
  /// How the files are packed.
  io::Compression compression = io::Compression::kNone;
  /// Read from a file at a time.
  std::size_t buffer_bytes = 256 << 10;
  /// Where the files lie. Unset: on this machine.
  std::shared_ptr<const io::FileSystem> file_system{};
};

/// Pieces of equal length of binary files, one file after another: CIFAR's files, for example, with
/// `{.record_bytes = 3073}`.
///
/// Workers can share it out by files, as `from_files`. The saved position is a number of bytes:
/// restoring goes there at once, in a packed file by unpacking up to there. A file whose length,
/// without header and footer, is no multiple of the record's fails as one element when it is
/// opened (kInvalidArgument); a packed one tells its length, and fails, at its end (kDataLoss).
/// Throws kInvalidArgument if there are no files, for a record of less than one byte and for
/// negative lengths.
///
/// TensorFlow counterpart: tf.data.FixedLengthRecordDataset.
Dataset<std::string> fixed_length_records(std::vector<io::Path> paths,
                                          const FixedLengthRecordsOptions& options);

}  // namespace brigade::data
