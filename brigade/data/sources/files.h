#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/data/core/indexed_source.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/core/sharding.h"
#include "brigade/data/dataset.h"
#include "brigade/io/file_system.h"

namespace brigade::data {

namespace internal {

/// The files of a source; independent of the element type.
///
/// Thread-safety: immutable.
class FileList {
 public:
  /// `source` is the name of the source, for messages. Throws kInvalidArgument if there are no
  /// files.
  explicit FileList(std::vector<io::Path> paths, std::string source = "from_files");

  std::uint64_t size() const { return paths_.size(); }
  const io::Path& operator[](std::uint64_t file) const { return paths_[file]; }
  std::string describe() const;
  /// Without the common folder of all files, which may differ between machines.
  PipelineDescription pipeline() const;
  ShardingInfo sharding() const;

  /// A position: `done` files of the iteration are read, and `inner` is the position in the next
  /// one.
  io::StateTree save(std::uint64_t done, std::optional<io::StateTree> inner) const;
  /// The number of finished files. Throws kInvalidArgument if the state belongs to another list.
  std::uint64_t done_in(const io::StateTree& state) const;
  /// Throws kInvalidArgument if a saved position is in a file after the last one.
  void check_has(std::uint64_t file) const;

  /// Rethrows the current exception as an `Error` that names the file. An `Error` keeps its code;
  /// anything else becomes kAborted.
  [[noreturn]] void rethrow_in(std::uint64_t file) const;

 private:
  std::string source_;
  std::vector<io::Path> paths_;
  std::uint64_t fingerprint_;
};

/// The options of the iterator over one file: a separate seed, and no sharding.
IteratorOptions options_of_file(IteratorOptions options, std::uint64_t file);

/// The files that an iterator reads: every `stride`-th one from `first` on, of which `done` are
/// finished.
struct FilesOfShard {
  explicit FilesOfShard(const Shard& shard);
  /// The number of the next file.
  std::uint64_t file() const { return first + done * stride; }

  std::uint64_t first = 0;
  std::uint64_t stride = 1;
  std::uint64_t done = 0;
};

template <class T>
struct FileReader {
  FileList files;
  std::function<Dataset<T>(const io::Path&)> read;
  /// Whether the reader's errors name the file. Otherwise the name is added.
  bool errors_name_file = false;

  [[noreturn]] void rethrow_in(std::uint64_t file) const {
    if (errors_name_file) throw;
    files.rethrow_in(file);
  }
};

template <class T>
class FilesIterator final : public IteratorBase<T> {
 public:
  FilesIterator(std::shared_ptr<const FileReader<T>> reader, const IteratorOptions& options)
      : reader_(std::move(reader)), options_(options), shard_(options.shard) {}

  std::optional<T> next() override {
    for (; file() < reader_->files.size(); leave_file()) {
      open_file();
      try {
        if (auto element = inner_->next()) return element;
      } catch (...) {
        reader_->rethrow_in(file());
      }
    }
    return std::nullopt;
  }
  std::uint64_t skip(std::uint64_t count) override {
    std::uint64_t passed = 0;
    while (passed < count && file() < reader_->files.size()) {
      try {
        open_file();
      } catch (...) {  // a file that cannot be opened counts as one failed element
        rethrow_if_cancelled();
        ++passed;
        continue;
      }
      passed += inner_->skip(count - passed);
      if (passed < count) leave_file();
    }
    return passed;
  }
  io::StateTree save() const override {
    return reader_->files.save(shard_.done, inner_ ? std::optional(inner_->save()) : std::nullopt);
  }
  void restore(const io::StateTree& state) override {
    const std::uint64_t done = reader_->files.done_in(state);
    close_file();
    shard_.done = done;
    if (!has_position_input(state)) return;
    reader_->files.check_has(file());
    open_file();
    inner_->restore(position_input(state));
  }

 private:
  std::uint64_t file() const { return shard_.file(); }
  /// A file that cannot be opened is skipped and reported as one failed element.
  void open_file() {
    if (inner_) return;
    try {
      node_ = reader_->read(reader_->files[file()]).node();
      inner_ = node_->iterator(options_of_file(options_, file()));
    } catch (...) {
      const std::uint64_t failed = file();
      leave_file();
      reader_->rethrow_in(failed);
    }
  }
  void leave_file() {
    close_file();
    ++shard_.done;
  }
  void close_file() {
    inner_ = nullptr;  // before the node that created it
    node_ = nullptr;
  }

  std::shared_ptr<const FileReader<T>> reader_;
  IteratorOptions options_;
  FilesOfShard shard_;
  NodePtr<T> node_;  // of the open file
  std::unique_ptr<IteratorBase<T>> inner_;
};

template <class T>
Dataset<T> make_files(FileReader<T> files) {
  auto reader = std::make_shared<const FileReader<T>>(std::move(files));
  SourceSpec spec{.name = reader->files.describe(),
                  .pipeline = reader->files.pipeline(),
                  .sharding = reader->files.sharding()};
  return Dataset<T>(make_source<T>(std::move(spec), [reader](const IteratorOptions& options) {
    return std::make_unique<FilesIterator<T>>(reader, options);
  }));
}

using FileListPtr = std::shared_ptr<const FileList>;

/// The source of `file_elements`: one element for each file, without reading it.
template <class T>
class FileElementsIterator final : public IteratorBase<T> {
 public:
  using Make = std::function<T(std::uint64_t file)>;

  FileElementsIterator(FileListPtr files, std::shared_ptr<const Make> make, const Shard& shard)
      : files_(std::move(files)), make_(std::move(make)), shard_(shard) {}
  std::optional<T> next() override {
    if (left() == 0) return std::nullopt;
    const std::uint64_t file = shard_.file();
    ++shard_.done;
    return (*make_)(file);
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t passed = std::min(count, left());
    shard_.done += passed;
    return passed;
  }
  io::StateTree save() const override { return files_->save(shard_.done, std::nullopt); }
  void restore(const io::StateTree& state) override { shard_.done = files_->done_in(state); }

 private:
  std::uint64_t left() const {
    const std::uint64_t at = shard_.file();
    if (at >= files_->size()) return 0;
    return (files_->size() - at + shard_.stride - 1) / shard_.stride;
  }

  FileListPtr files_;
  std::shared_ptr<const Make> make_;
  FilesOfShard shard_;
};

/// One element for each file of a list, made from the file's number by `make`, a pure function. The
/// element represents the file until a later step reads it. Such elements are cheap to shuffle, and
/// unlike `from_files` this source knows its cardinality. It can be sharded by files.
template <class T>
Dataset<T> file_elements(FileListPtr files, typename FileElementsIterator<T>::Make make) {
  SourceSpec spec{.name = files->describe(),
                  .cardinality = static_cast<std::int64_t>(files->size()),
                  .pipeline = files->pipeline(),
                  .sharding = files->sharding()};
  const auto shared =
      std::make_shared<const typename FileElementsIterator<T>::Make>(std::move(make));
  return Dataset<T>(
      make_source<T>(std::move(spec), [files, shared](const IteratorOptions& options) {
        return std::make_unique<FileElementsIterator<T>>(files, shared, options.shard);
      }));
}

// Shared by the sources that read files (text_lines, records, csv, ...).

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

}  // namespace internal

/// The elements of files, one file after another: `read(path)` returns the dataset of one file and
/// is called when the file is reached. The cardinality is unknown.
///
///   auto train = data::from_files<input::LabeledExample>(paths, [](const io::Path& path) {
///     return read_my_format(path);
///   }).shuffle(10'000).batch(128);
///
/// Such a dataset can be sharded by files (AutoShardPolicy::kFile): give the list in the same order
/// on all workers, for example sorted; the folder of the files may differ.
///
/// Errors of `read` and its datasets are thrown by `next()` with the file named; a file that cannot
/// be opened counts as one element. The saved position is the number of finished files and the
/// position in the next one, which restoring opens. Each file's iterator has a different seed, so
/// shuffling and augmentation inside differ between files. Throws kInvalidArgument if there are no
/// files. TensorFlow counterpart: Dataset.from_tensor_slices(files).flat_map(reader).
template <class T>
Dataset<T> from_files(std::vector<io::Path> paths,
                      std::function<Dataset<T>(const io::Path&)> read) {
  return internal::make_files<T>(
      {.files = internal::FileList(std::move(paths)), .read = std::move(read)});
}

}  // namespace brigade::data
