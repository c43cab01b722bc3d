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

/// Options of `records`.
struct RecordsOptions {
  /// The compression of the files.
  io::Compression compression = io::Compression::kNone;
  /// Number of bytes read from a file at a time.
  std::size_t buffer_bytes = 256 << 10;
  /// A longer record is one element that fails, so that memory use is bounded.
  std::uint64_t max_record_bytes = std::uint64_t{1} << 30;
  /// The file system. Unset: the local one.
  std::shared_ptr<const io::FileSystem> file_system{};
};

/// The records of TFRecord files, one file after another. All checksums are verified.
///
///   const auto examples = data::records(data::match_files("train-*.tfrecord"))
///                             .map(data::ExampleParser({...}), {.parallelism = 4});
///
/// A record with a wrong checksum, or one that is too long, is one element that fails (kDataLoss,
/// kResourceExhausted), and reading continues with the next one. If the checksum of a length is
/// wrong, the next record cannot be found: the rest of that file is one element that fails
/// (kDataLoss); so is a record truncated by the end of the file, and the rest of a corrupt
/// compressed file. All errors name the file and the byte offset.
///
/// It can be sharded by files, as `from_files`. The saved position is a byte offset: restoring
/// seeks to it directly; a compressed file is decompressed up to it. `skip` reads lengths only.
/// Throws kInvalidArgument if there are no files.
///
/// TensorFlow counterpart: tf.data.TFRecordDataset.
Dataset<std::string> records(std::vector<io::Path> paths, const RecordsOptions& options = {});

/// Options of `write_records`.
struct WriteRecordsOptions {
  /// The compression of the files.
  io::Compression compression = io::Compression::kNone;
  /// The file system to write to. Unset: the local one.
  std::shared_ptr<io::FileSystem> file_system{};
};

/// Writes epoch 0 of a dataset to one file of records and returns their number. The file is
/// replaced atomically when it is complete and on disk; if the dataset or the disk throws, the old
/// file stays.
///
/// TensorFlow counterpart: tf.data.experimental.TFRecordWriter.
std::uint64_t write_records(const Dataset<std::string>& dataset, const io::Path& path,
                            const WriteRecordsOptions& options = {});

}  // namespace brigade::data
