#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/data/core/node.h"
#include "brigade/data/dataset.h"
#include "brigade/data/sources/files.h"
#include "brigade/io/byte_reader.h"
#include "brigade/io/file_system.h"

/// Shared by the file sources (text_lines, records, ...); internal.
namespace brigade::data::internal {

template <class T>
using OpenFile = std::function<std::unique_ptr<IteratorBase<T>>(const io::Path&)>;

/// A dataset of the elements of files, one file after another, as from `from_files`: `open` creates
/// the iterator of one file. Its errors name the file. `source` is the name used in messages.
template <class T>
Dataset<T> make_file_source(std::vector<io::Path> paths, std::string source, OpenFile<T> open) {
  auto shared = std::make_shared<const OpenFile<T>>(std::move(open));
  return make_files<T>({.files = FileList(std::move(paths), std::move(source)),
                        .read =
                            [shared](const io::Path& path) {
                              return Dataset<T>(make_source<T>(
                                  {.name = path.string()}, [shared, path](const IteratorOptions&) {
                                    return (*shared)(path);
                                  }));
                            },
                        .errors_name_file = true});
}

/// The file system to read from: the given one, or the local one.
std::shared_ptr<const io::FileSystem> file_system_or_default(
    std::shared_ptr<const io::FileSystem> given);

/// Throws kInvalidArgument if the buffer size is 0.
void check_buffer(std::size_t buffer_bytes, std::string_view source);

/// A position in a file: the number of content bytes read, and whether nothing more can be read
/// after them.
struct FilePosition {
  std::uint64_t offset = 0;
  bool is_at_end = false;
};
io::StateTree save_file_position(std::string_view source, const FilePosition& position);
/// Throws kInvalidArgument if the state is not a position of this source.
FilePosition load_file_position(const io::StateTree& state, std::string_view source);

/// A file that is read sequentially, and its position. A `Reader` has `offset()` and
/// `seek(offset)`.
///
/// Thread-safety: one thread at a time.
template <class Reader>
struct FileCursor {
  Reader reader;
  bool is_at_end = false;  ///< Nothing more can be read.

  io::StateTree save(std::string_view source) const {
    return save_file_position(source, {.offset = reader.offset(), .is_at_end = is_at_end});
  }
  /// Throws kInvalidArgument if the state is not a position of this source.
  void restore(const io::StateTree& state, std::string_view source) {
    const FilePosition position = load_file_position(state, source);
    reader.seek(position.offset);
    is_at_end = position.is_at_end;
  }
};

}  // namespace brigade::data::internal
