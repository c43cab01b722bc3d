#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/core/codec.h"
#include "brigade/data/core/element_index.h"
#include "brigade/data/core/error_context.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/pipelined_iterator.h"
#include "brigade/data/core/position.h"
#include "brigade/io/file_system.h"
#include "brigade/io/record_reader.h"

namespace brigade::data::internal {

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
    ElementResult<T> result = result_of_next(file);
    // No element: the call was cancelled.
    if (result.error && options_.cancel && options_.cancel->is_cancelled()) {
      std::rethrow_exception(result.error);
    }
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
