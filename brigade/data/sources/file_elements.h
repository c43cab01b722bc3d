#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/node.h"
#include "brigade/data/dataset.h"
#include "brigade/data/sources/files.h"

namespace brigade::data::internal {

using FileListPtr = std::shared_ptr<const FileList>;

/// The source of `file_elements`: one element for each file, without reading it.
template <class T>
class FileElementsIterator final : public IteratorBase<T> {
 public:
  using Make = std::function<T(std::uint64_t file)>;

  FileElementsIterator(FileListPtr files, std::shared_ptr<const Make> make, const Shard& shard)
      : files_(std::move(files)), make_(std::move(make)) {
    if (shard.by != ShardBy::kFiles) return;
    first_ = static_cast<std::uint64_t>(shard.index);
    stride_ = static_cast<std::uint64_t>(shard.count);
  }
  std::optional<T> next() override {
    if (left() == 0) return std::nullopt;
    return (*make_)(first_ + done_++ * stride_);
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t passed = std::min(count, left());
    done_ += passed;
    return passed;
  }
  io::StateTree save() const override { return files_->save(done_, std::nullopt); }
  void restore(const io::StateTree& state) override { done_ = files_->done_in(state); }

 private:
  std::uint64_t left() const {
    const std::uint64_t at = first_ + done_ * stride_;
    return at >= files_->size() ? 0 : (files_->size() - at + stride_ - 1) / stride_;
  }

  FileListPtr files_;
  std::shared_ptr<const Make> make_;
  std::uint64_t first_ = 0;
  std::uint64_t stride_ = 1;
  std::uint64_t done_ = 0;  // files of this iteration
};

template <class T>
class FileElementsNode final : public Node<T> {
 public:
  using Make = typename FileElementsIterator<T>::Make;

  FileElementsNode(FileListPtr files, Make make)
      : files_(std::move(files)), make_(std::make_shared<const Make>(std::move(make))) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<FileElementsIterator<T>>(files_, make_, options.shard);
  }
  std::int64_t cardinality() const override { return static_cast<std::int64_t>(files_->size()); }
  std::string describe() const override { return files_->describe(); }
  PipelineDescription pipeline() const override { return files_->pipeline(); }
  std::uint64_t depth() const override { return 0; }
  ShardingInfo sharding() const override { return files_->sharding(); }

 private:
  FileListPtr files_;
  std::shared_ptr<const Make> make_;
};

/// One element for each file of a list, made from the file's number by `make`, a pure function. The
/// element represents the file until a later step reads it. Such elements are cheap to shuffle, and
/// unlike `from_files` this source knows its cardinality. It can be sharded by files.
template <class T>
Dataset<T> file_elements(FileListPtr files, typename FileElementsNode<T>::Make make) {
  return Dataset<T>(std::make_shared<const FileElementsNode<T>>(std::move(files), std::move(make)));
}

}  // namespace brigade::data::internal
