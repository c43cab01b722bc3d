#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/codec.h"
#include "brigade/data/core/error_context.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/pipeline_description.h"
#include "brigade/data/core/pipelined_iterator.h"
#include "brigade/data/core/position.h"
#include "brigade/io/compression.h"
#include "brigade/io/file_system.h"
#include "brigade/io/record_reader.h"

namespace brigade::data::internal {

/// The contents of `index.json` in a folder of elements (docs/formats.md, "Files of elements").
struct ElementIndex {
  std::string type;              ///< `Codec<T>::name()`
  PipelineDescription pipeline;  ///< of the dataset that was written
  std::uint64_t seed = 0;
  std::string shard;  ///< of the dataset: "the whole"
  std::uint64_t count = 0;
  std::uint64_t files = 1;  ///< element i is in file i % files
  io::Compression compression = io::Compression::kNone;
};

/// Elements in file number `file`.
std::uint64_t elements_in_file(const ElementIndex& index, std::uint64_t file);

io::Path index_path(const io::Path& folder);
io::Path records_path(const io::Path& folder, std::uint64_t file, std::uint64_t files);
io::Path offsets_path(const io::Path& folder, std::uint64_t file, std::uint64_t files);

std::string index_text(const ElementIndex& index);
/// Throws kDataLoss, with the path in the message, if the text is not a valid index.
ElementIndex parse_index(std::string_view text, const io::Path& path);

/// The index of a folder, or `std::nullopt` if the folder has none.
std::optional<ElementIndex> find_index(const io::FileSystem& files, const io::Path& folder);

/// Throws kFailedPrecondition, saying what differs and what to delete, unless the folder holds
/// elements of the expected type and, if `expected` has one, pipeline description.
void check_index(const ElementIndex& found, const ElementIndex& expected, const io::Path& folder);

inline constexpr std::size_t kOffsetsPerRecord = 8192;

/// An open folder of elements: its index and the offset of each element.
///
/// Thread-safety: immutable.
class ElementFiles {
 public:
  /// Throws kDataLoss if the folder is incomplete, and as `FileSystem` does.
  ElementFiles(std::shared_ptr<const io::FileSystem> files, io::Path folder, ElementIndex index);

  const ElementIndex& index() const { return index_; }
  std::string describe_element(std::uint64_t position) const;
  std::uint64_t offset(std::uint64_t file, std::uint64_t position) const {
    return offsets_[file][static_cast<std::size_t>(position)];
  }
  io::RecordReader open(std::uint64_t file) const;

 private:
  std::shared_ptr<const io::FileSystem> files_;
  io::Path folder_;
  ElementIndex index_;
  std::vector<std::vector<std::uint64_t>> offsets_;
};

/// The bytes of the elements of one file.
///
/// Thread-safety: one thread at a time.
class ElementFileReader {
 public:
  ElementFileReader(std::shared_ptr<const ElementFiles> elements, std::uint64_t file);
  std::uint64_t size() const { return size_; }
  /// The element at `position` in the file. Fast if it is the next one or the file is not
  /// compressed.
  std::string read(std::uint64_t position);
  /// Names the element by its index in the whole folder.
  std::string describe_element(std::uint64_t position) const;

 private:
  std::shared_ptr<const ElementFiles> elements_;
  std::uint64_t file_;
  std::uint64_t size_;
  std::optional<io::RecordReader> records_;
  std::uint64_t next_ = 0;  // the next record of records_
};

/// The elements of one file. A corrupt element is thrown as an error when it is reached.
template <Encodable T>
class ElementFileIterator final : public IteratorBase<T> {
 public:
  ElementFileIterator(std::shared_ptr<const ElementFiles> elements, std::uint64_t file,
                      std::uint64_t position)
      : reader_(std::move(elements), file), position_(position) {}
  std::optional<T> next() override {
    if (position_ >= reader_.size()) return std::nullopt;
    const std::uint64_t position = position_++;
    try {
      return decode<T>(reader_.read(position));
    } catch (...) {
      rethrow_with_context(reader_.describe_element(position));
    }
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t left = reader_.size() - position_;
    const std::uint64_t passed = count < left ? count : left;
    position_ += passed;
    return passed;
  }
  io::StateTree save() const override { return make_position("elements", {{"place", position_}}); }
  void restore(const io::StateTree& state) override {
    check_position(state, "elements");
    const std::uint64_t position = position_number(state, "place");
    position_ = position < reader_.size() ? position : reader_.size();
  }

 private:
  ElementFileReader reader_;
  std::uint64_t position_;
};

/// The elements of a folder, in order. Several files are prefetched by one thread each.
template <Encodable T>
class ElementsIterator {
 public:
  ElementsIterator(std::shared_ptr<const ElementFiles> elements, const IteratorOptions& options)
      : elements_(std::move(elements)), options_(options) {
    seek(0);
  }

  std::uint64_t position() const { return position_; }
  std::uint64_t size() const { return elements_->index().count; }
  std::optional<T> next() {
    if (position_ >= size()) return std::nullopt;
    IteratorBase<T>& file = *files_[static_cast<std::size_t>(position_ % files_.size())];
    ElementResult<T> result = result_unless_cancelled(file, options_.cancel);
    ++position_;
    return std::move(result).take();
  }
  std::uint64_t skip(std::uint64_t count) {
    const std::uint64_t left = size() - position_;
    const std::uint64_t passed = count < left ? count : left;
    for (std::uint64_t file = 0; file < files_.size(); ++file) {
      const std::uint64_t of_file = before(position_ + passed, file) - before(position_, file);
      if (of_file > 0) files_[static_cast<std::size_t>(file)]->skip(of_file);
    }
    position_ += passed;
    return passed;
  }
  void seek(std::uint64_t position) {
    position_ = position;
    files_.clear();  // joins their threads
    const std::uint64_t files = elements_->index().files;
    for (std::uint64_t file = 0; file < files; ++file) {
      auto reader =
          std::make_unique<ElementFileIterator<T>>(elements_, file, before(position, file));
      if (files == 1) {
        files_.push_back(std::move(reader));
      } else {
        files_.push_back(read_ahead(std::move(reader)));
      }
    }
  }

 private:
  /// The number of elements before `position` that are in the file.
  std::uint64_t before(std::uint64_t position, std::uint64_t file) const {
    const std::uint64_t files = elements_->index().files;
    return position / files + (file < position % files ? 1 : 0);
  }
  std::unique_ptr<IteratorBase<T>> read_ahead(std::unique_ptr<IteratorBase<T>> reader) const {
    return std::make_unique<PipelinedIterator<T, T>>(
        std::move(reader), [](T&& element, std::uint64_t) { return std::move(element); },
        PipelineOptions{.name = "elements",
                        .workers = 1,
                        .capacity = 4,
                        .max_chunk = 16,
                        .cancel = options_.cancel});
  }

  std::shared_ptr<const ElementFiles> elements_;
  IteratorOptions options_;
  std::vector<std::unique_ptr<IteratorBase<T>>> files_;
  std::uint64_t position_ = 0;
};

}  // namespace brigade::data::internal
