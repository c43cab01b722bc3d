#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/codec.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/sources/element_files.h"
#include "brigade/data/sources/element_writer.h"
#include "brigade/data/transforms/cache.h"

namespace brigade::data {

/// Options for a folder of elements.
struct ElementFilesOptions {
  /// Number of files; elements are distributed round-robin. Several files are read by one thread
  /// each.
  std::int64_t files = 1;
  /// kNone or kGzip. Compressed files are smaller, but resuming in the middle of a file
  /// decompresses it up to there.
  io::Compression compression = io::Compression::kNone;
  /// The file system of the folder.
  std::shared_ptr<io::FileSystem> file_system = io::posix_file_system();
};

/// As `ElementFilesOptions`, for `Dataset::snapshot`.
struct SnapshotOptions {
  std::int64_t files = 4;
  io::Compression compression = io::Compression::kNone;
  std::shared_ptr<io::FileSystem> file_system = io::posix_file_system();
};

namespace internal {

/// Throws kInvalidArgument if the options are invalid; the message begins with `step`.
void check_element_files(const ElementFilesOptions& options, const io::Path& folder,
                         const std::string& step);
/// The folder of this shard's elements, next to that of the unsharded dataset.
io::Path folder_of_shard(const io::Path& folder, const Shard& shard);

/// Shared by all iterators of one cache in files.
///
/// Thread-safety: all functions from any thread.
class FileCache {
 public:
  FileCache(io::Path folder, ElementFilesOptions options, std::string type,
            PipelineDescription pipeline, std::string describe);

  /// The cached elements for these options. Null if there are none or if they were written with
  /// another seed, which is logged once as a warning. Throws kFailedPrecondition if the folder
  /// holds elements of another pipeline or type.
  std::shared_ptr<const ElementFiles> find(const IteratorOptions& options) const;
  /// Null if the folder holds elements of another seed.
  std::unique_ptr<ElementWriter> write(const IteratorOptions& options) const;
  void warn_of_partial(std::uint64_t elements) const noexcept;
  void warn_of_failure() const noexcept;

 private:
  ElementIndex index_of(const IteratorOptions& options) const;
  bool wants_warning() const;

  io::Path folder_;
  ElementFilesOptions options_;
  std::string type_;
  PipelineDescription pipeline_;
  std::string describe_;
  mutable concurrency::Mutex mutex_;
  mutable bool has_warned_ BRIGADE_GUARDED_BY(mutex_) = false;
};

/// Reads the elements from files; or from the input while writing them; or only from the input, if
/// the files belong to another seed.
template <Encodable T>
class FileCacheIterator final : public IteratorBase<T> {
 public:
  FileCacheIterator(const Node<T>& input, IteratorOptions options,
                    std::shared_ptr<const FileCache> cache)
      : node_(input), options_(options_of_cached(std::move(options))), cache_(std::move(cache)) {
    open();
    if (!files_) begin_input();
  }
  ~FileCacheIterator() override {
    if (writer_ && writer_->count() > 0) cache_->warn_of_partial(writer_->count());
  }
  FileCacheIterator(const FileCacheIterator&) = delete;
  FileCacheIterator& operator=(const FileCacheIterator&) = delete;

  std::optional<T> next() override { return files_ ? files_->next() : next_of_input(); }
  std::uint64_t skip(std::uint64_t count) override {
    if (files_) return files_->skip(count);
    if (has_begun_ && !writer_) {
      const std::uint64_t passed = input_->skip(count);
      index_ += passed;
      return passed;
    }
    return IteratorBase<T>::skip(count);
  }
  io::StateTree save() const override {
    return make_position("cache", {{"place", files_ ? files_->position() : index_}});
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "cache");
    const std::uint64_t index = position_number(state, "place");
    if (!files_) open();
    if (files_) {
      if (index > files_->size()) throw_cached_input_too_short(index);
      return files_->seek(index);
    }
    if (index < index_) begin_input();
    const std::uint64_t distance = index - index_;
    check_source_position(index, node_.cardinality(), node_.describe());
    if (cancellable_skip(*this, distance, options_.cancel) != distance)
      throw_cached_input_too_short(index);
  }

 private:
  void open() {
    if (auto elements = cache_->find(options_)) {
      writer_ = nullptr;
      input_ = nullptr;
      files_.emplace(std::move(elements), options_);
    }
  }
  /// Restarts the input at the start of the epoch. Elements already written are not written again.
  void begin_input() {
    input_ = node_.iterator(options_);  // the old iterator is kept if this throws
    index_ = 0;
  }
  std::optional<T> next_of_input() {
    ElementResult<T> result = result_unless_cancelled(*input_, options_.cancel);
    const std::uint64_t index = index_;
    if (!result.is_end()) ++index_;  // counted even if it cannot be written
    if (!std::exchange(has_begun_, true)) writer_ = cache_->write(options_);
    if (result.is_end()) {
      commit();
      return std::nullopt;
    }
    if (writer_ && writer_->count() == index) write(result);
    return std::move(result).take();
  }
  /// An element that cannot be written fails, and iteration continues without writing.
  void write(const ElementResult<T>& result) {
    auto writer = std::exchange(writer_, nullptr);
    if (result.error) return cache_->warn_of_failure();  // it may succeed next time
    writer->write(encode(*result.element));
    writer_ = std::move(writer);
    if (static_cast<std::int64_t>(writer_->count()) == node_.cardinality()) commit();
  }
  void commit() {
    if (const auto writer = std::exchange(writer_, nullptr)) writer->commit();
  }

  const Node<T>& node_;
  const IteratorOptions options_;
  const std::shared_ptr<const FileCache> cache_;
  std::optional<ElementsIterator<T>> files_;  // set once they are complete
  std::unique_ptr<IteratorBase<T>> input_;    // until then
  std::uint64_t index_ = 0;                   // of input_
  std::unique_ptr<ElementWriter> writer_;     // while a pass is being written
  bool has_begun_ = false;
};

template <Encodable T>
NodePtr<T> make_file_cache(NodePtr<T> input, io::Path folder, ElementFilesOptions options,
                           const std::string& name) {
  check_element_files(options, folder, name);
  const std::string describe = input->describe() + " | " + name;
  check_cache_input(input->cardinality(), describe);
  auto cache = std::make_shared<const FileCache>(std::move(folder), std::move(options),
                                                 Codec<T>::name(), input->pipeline(), describe);
  return make_transform<T>(
      std::move(input), {.name = name, .rereads_input = true, .has_fixed_order = true},
      [cache = std::move(cache)](const Node<T>& from, const IteratorOptions& job, const Node<T>&) {
        return std::make_unique<FileCacheIterator<T>>(from, job, cache);
      });
}

}  // namespace internal

/// See `Dataset::cache`.
template <Encodable T>
NodePtr<T> make_file_cache(NodePtr<T> input, io::Path folder, ElementFilesOptions options) {
  return internal::make_file_cache(std::move(input), std::move(folder), std::move(options),
                                   "cache");
}

/// See `Dataset::snapshot`.
template <Encodable T>
NodePtr<T> make_snapshot(NodePtr<T> input, io::Path folder, SnapshotOptions options) {
  return internal::make_file_cache(
      std::move(input), std::move(folder),
      {options.files, options.compression, std::move(options.file_system)}, "snapshot");
}

}  // namespace brigade::data
