#include "brigade/input/file_numbers.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace brigade::input::internal {
namespace {

class FileNumbersIterator final : public data::IteratorBase<std::int64_t> {
 public:
  FileNumbersIterator(FileListPtr files, const data::Shard& shard) : files_(std::move(files)) {
    if (shard.by != data::ShardBy::kFiles) return;
    first_ = static_cast<std::uint64_t>(shard.index);
    stride_ = static_cast<std::uint64_t>(shard.count);
  }
  std::optional<std::int64_t> next() override {
    if (left() == 0) return std::nullopt;
    return static_cast<std::int64_t>(first_ + done_++ * stride_);
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
  std::uint64_t first_ = 0;
  std::uint64_t stride_ = 1;
  std::uint64_t done_ = 0;  // of this walk's files
};

class FileNumbersNode final : public data::Node<std::int64_t> {
 public:
  explicit FileNumbersNode(FileListPtr files) : files_(std::move(files)) {}
  std::unique_ptr<data::IteratorBase<std::int64_t>> iterator(
      const data::IteratorOptions& options) const override {
    return std::make_unique<FileNumbersIterator>(files_, options.shard);
  }
  std::int64_t cardinality() const override { return static_cast<std::int64_t>(files_->size()); }
  std::string describe() const override { return files_->describe(); }
  data::Recipe recipe() const override { return files_->recipe(); }
  std::uint64_t depth() const override { return 0; }
  data::Sharing sharing() const override { return files_->sharing(); }

 private:
  FileListPtr files_;
};

}  // namespace

data::Dataset<std::int64_t> file_numbers(FileListPtr files) {
  return data::Dataset<std::int64_t>(std::make_shared<const FileNumbersNode>(std::move(files)));
}

}  // namespace brigade::input::internal
