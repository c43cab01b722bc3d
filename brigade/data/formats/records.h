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

struct RecordsOptions {
  /// How the files are packed.
  io::Compression compression = io::Compression::kNone;
  /// Read from a file at a time.
  std::size_t buffer_bytes = 256 << 10;
  /// A longer record fails, as one element: no file can make the reader take more memory than this.
  std::uint64_t max_record_bytes = std::uint64_t{1} << 30;
  /// Where the files lie. Unset: on this machine.
  std::shared_ptr<const io::FileSystem> file_system{};
};

/// The records of TFRecord files, one file after another. Every byte has passed its checksum.
///
///   const auto examples = data::records(data::match_files("train-*.tfrecord"))
///                             .map(data::ExampleParser({...}), {.parallelism = 4});
///
/// A record whose checksum is wrong, or that is too long, fails as one element (kDataLoss,
/// kResourceExhausted), and the next one is read. Where the checksum of a length is wrong nothing
/// says how to go on: the rest of that file is one element that fails (kDataLoss); so is a record
/// that the end of the file cuts short, and the rest of a broken packed file. All name the file and
/// the byte.
///
/// Workers can share it out by files, as `from_files`. The saved position is a number of bytes:
/// restoring goes there at once, in a packed file by unpacking up to there. `skip` reads lengths
/// only. Throws kInvalidArgument if there are no files.
///
/// TensorFlow counterpart: tf.data.TFRecordDataset.
Dataset<std::string> records(std::vector<io::Path> paths, const RecordsOptions& options = {});

struct WriteRecordsOptions {
  io::Compression compression = io::Compression::kNone;
  /// Where to write. Unset: on this machine.
  std::shared_ptr<io::FileSystem> file_system{};
};

/// Writes epoch 0 of a dataset as one file of records and returns how many they are. The file
/// appears, in place of any other, when it is whole and on the disk; whatever the dataset or the
/// disk throws leaves what was there.
///
/// TensorFlow counterpart: tf.data.experimental.TFRecordWriter.
std::uint64_t write_records(const Dataset<std::string>& dataset, const io::Path& path,
                            const WriteRecordsOptions& options = {});

}  // namespace brigade::data
