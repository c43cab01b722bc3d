#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/pipeline_description.h"
#include "brigade/data/core/position.h"

namespace brigade::data::internal {

/// Throws kInvalidArgument if `size` is negative.
void check_source_size(std::int64_t size, const std::string& name);

/// start + index * step; wraps around to -2^63 past the largest number.
std::int64_t number_at(std::int64_t start, std::int64_t step, std::int64_t index);

/// Describes a source.
struct SourceSpec {
  std::string name;
  std::int64_t cardinality = kUnknown;
  /// For comparisons, if the name has something that may differ between machines. Unset: the name.
  std::optional<PipelineDescription> pipeline{};
  ShardingInfo sharding{};
};

/// A source that is described by a `SourceSpec` and a function that makes its iterators.
template <class T>
class SpecifiedSource final : public Node<T> {
 public:
  using Make = std::function<std::unique_ptr<IteratorBase<T>>(const IteratorOptions& options)>;

  SpecifiedSource(SourceSpec spec, Make make) : spec_(std::move(spec)), make_(std::move(make)) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    return make_(options);
  }
  std::int64_t cardinality() const override { return spec_.cardinality; }
  std::string describe() const override { return spec_.name; }
  PipelineDescription pipeline() const override {
    return spec_.pipeline ? *spec_.pipeline : PipelineDescription{spec_.name};
  }
  std::uint64_t depth() const override { return 0; }
  ShardingInfo sharding() const override { return spec_.sharding; }

 private:
  SourceSpec spec_;
  Make make_;
};

template <class T>
NodePtr<T> make_source(SourceSpec spec, typename SpecifiedSource<T>::Make make) {
  return std::make_shared<const SpecifiedSource<T>>(std::move(spec), std::move(make));
}

template <class T>
class IndexedNode;

template <class T>
class IndexedIterator final : public IteratorBase<T> {
 public:
  explicit IndexedIterator(const IndexedNode<T>& node) : node_(node) {}
  std::optional<T> next() override {
    if (index_ >= node_.size()) return std::nullopt;
    return node_.at(index_++);  // moves on even if it throws
  }
  std::uint64_t skip(std::uint64_t count) override {
    const auto left = static_cast<std::uint64_t>(node_.size() - index_);
    const std::uint64_t passed = count < left ? count : left;
    index_ += static_cast<std::int64_t>(passed);
    return passed;
  }
  io::StateTree save() const override {
    return make_position("source", {{"index", static_cast<std::uint64_t>(index_)}});
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "source");
    const std::uint64_t index = position_number(state, "index");
    check_source_position(index, node_.size(), node_.describe());
    index_ = static_cast<std::int64_t>(index);
  }

 private:
  const IndexedNode<T>& node_;
  std::int64_t index_ = 0;
};

/// A source whose elements are made from their index.
template <class T>
class IndexedNode final : public Node<T> {
 public:
  IndexedNode(std::int64_t size, std::function<T(std::int64_t)> element, std::string name)
      : IndexedNode(size, size, std::move(element), std::move(name)) {}
  /// For a source whose cardinality is not `size`: infinite, or unknown.
  IndexedNode(std::int64_t size, std::int64_t cardinality, std::function<T(std::int64_t)> element,
              std::string name)
      : size_(size),
        cardinality_(cardinality),
        element_(std::move(element)),
        name_(std::move(name)) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions&) const override {
    return std::make_unique<IndexedIterator<T>>(*this);
  }
  std::int64_t cardinality() const override { return cardinality_; }
  std::string describe() const override { return name_; }
  std::uint64_t depth() const override { return 0; }
  std::int64_t size() const { return size_; }
  T at(std::int64_t index) const { return element_(index); }

 private:
  std::int64_t size_;
  std::int64_t cardinality_;
  std::function<T(std::int64_t)> element_;
  std::string name_;
};

}  // namespace brigade::data::internal
