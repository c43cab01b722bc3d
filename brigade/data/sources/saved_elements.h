#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/codec.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/dataset.h"
#include "brigade/data/sources/element_files.h"
#include "brigade/data/sources/element_writer.h"
#include "brigade/data/transforms/file_cache.h"

namespace brigade::data {

namespace internal {

/// Throws kAlreadyExists if there are elements in the folder.
void check_nothing_saved(const io::FileSystem& files, const io::Path& folder);
/// Throws kNotFound if there are no elements in the folder, kFailedPrecondition if they are of
/// another type.
std::shared_ptr<const ElementFiles> open_saved(std::shared_ptr<io::FileSystem> files,
                                               const io::Path& folder, const std::string& type);
PipelineDescription pipeline_of_saved(const ElementIndex& index);
/// Commits. Throws kAlreadyExists if another writer committed first.
void finish_saving(ElementWriter& writer, const io::Path& folder);

template <Encodable T>
class LoadIterator final : public IteratorBase<T> {
 public:
  LoadIterator(std::shared_ptr<const ElementFiles> elements, const IteratorOptions& options)
      : elements_(std::move(elements), options) {}
  std::optional<T> next() override { return elements_.next(); }
  std::uint64_t skip(std::uint64_t count) override { return elements_.skip(count); }
  io::StateTree save() const override {
    return make_position("load", {{"place", elements_.position()}});
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "load");
    const std::uint64_t index = position_number(state, "place");
    if (index > elements_.size()) throw_cached_input_too_short(index);
    elements_.seek(index);
  }

 private:
  ElementsIterator<T> elements_;
};

}  // namespace internal

/// Writes the elements of epoch 0 to the folder `path`, for `load`. The folder appears when it is
/// complete. If an element fails, nothing is written. Throws kAlreadyExists if there are elements
/// in the folder, and as `FileSystem` does (kResourceExhausted: the disk is full). TensorFlow
/// counterpart: Dataset.save.
template <Encodable T>
void save(const Dataset<T>& dataset, const io::Path& path, ElementFilesOptions options = {},
          IteratorOptions iterator_options = {}) {
  internal::check_element_files(options, path, "save");
  internal::check_cache_input(dataset.cardinality(), dataset.describe() + " | save");
  const io::Path folder = internal::folder_of_shard(path, Shard());
  internal::check_nothing_saved(*options.file_system, folder);
  internal::ElementWriter writer(options.file_system, folder,
                                 {.type = Codec<T>::name(),
                                  .pipeline = dataset.node()->pipeline(),
                                  .seed = iterator_options.seed,
                                  .shard = describe(iterator_options.shard),
                                  .files = static_cast<std::uint64_t>(options.files),
                                  .compression = options.compression});
  auto iterator = dataset.iterator(std::move(iterator_options));
  while (auto element = iterator.next()) writer.write(encode(*element));
  internal::finish_saving(writer, folder);
}

/// The elements of a folder that `save`, `Dataset::cache(path)` or `Dataset::snapshot` wrote, in
/// their order. The dataset knows its cardinality and resumes directly at a saved position. A
/// corrupt element fails alone; the error names the folder and the element. Throws kNotFound if
/// there are no elements, kFailedPrecondition if they are of another type, kDataLoss if the folder
/// is corrupt. TensorFlow counterpart: Dataset.load.
template <Encodable T>
Dataset<T> load(const io::Path& path,
                std::shared_ptr<io::FileSystem> files = io::posix_file_system()) {
  const auto elements = internal::open_saved(std::move(files), path, Codec<T>::name());
  return Dataset<T>(internal::make_source<T>(
      {.name = "load(" + path.string() + ")",
       .cardinality = static_cast<std::int64_t>(elements->index().count),
       .pipeline = internal::pipeline_of_saved(elements->index())},
      [elements](const IteratorOptions& options) {
        return std::make_unique<internal::LoadIterator<T>>(elements, options);
      }));
}

}  // namespace brigade::data
