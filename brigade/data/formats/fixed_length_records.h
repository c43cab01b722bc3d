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

/// Options of `fixed_length_records`: the length of a record, and how much of each file is
/// skipped.
struct FixedLengthRecordsOptions {
  /// The length of each record: 1 or more.
  std::int64_t record_bytes = 0;
  /// The number of bytes skipped at the beginning and at the end of each file.
  std::int64_t header_bytes = 0;
  std::int64_t footer_bytes = 0;
  /// The compression of the files.
  io::Compression compression = io::Compression::kNone;
  /// Number of bytes read from a file at a time.
  std::size_t buffer_bytes = 256 << 10;
  /// The file system. Unset: the local one.
  std::shared_ptr<const io::FileSystem> file_system{};
};

/// Records of equal length in binary files, one file after another; for example CIFAR's files with
/// `{.record_bytes = 3073}`.
///
/// It can be sharded by files, as `from_files`. The saved position is a byte offset: restoring
/// seeks to it directly; a compressed file is decompressed up to it. A file whose length, without
/// header and footer, is not a multiple of the record length is one element that fails when it is
/// opened (kInvalidArgument); a compressed one fails at its end, where its length is known
/// (kDataLoss). Throws kInvalidArgument if there are no files, for a record of less than one byte
/// and for negative lengths.
///
/// TensorFlow counterpart: tf.data.FixedLengthRecordDataset.
Dataset<std::string> fixed_length_records(std::vector<io::Path> paths,
                                          const FixedLengthRecordsOptions& options);

}  // namespace brigade::data
