#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/data/node.h"
#include "brigade/data/position.h"

namespace brigade::data {

namespace internal {

/// Throws kInvalidArgument if `size` is negative.
void check_source_size(std::int64_t size, const std::string& name);
/// Throws kInvalidArgument if a saved position lies behind the end of the source.
void check_source_position(std::uint64_t index, std::int64_t size, const std::string& name);

template <class T>
class IndexedNode;

template <class T>
class IndexedIterator final : public IteratorBase<T> {
 public:
  explicit IndexedIterator(const IndexedNode<T>& node) : node_(node) {}
  std::optional<T> next() override {
    if (index_ >= node_.size()) return std::nullopt;
    return node_.at(index_++);  // passed even if it throws
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

template <class T>
class IndexedNode final : public Node<T> {
 public:
  IndexedNode(std::int64_t size, std::function<T(std::int64_t)> element, std::string name)
      : size_(size), element_(std::move(element)), name_(std::move(name)) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions&) const override {
    return std::make_unique<IndexedIterator<T>>(*this);
  }
  std::int64_t cardinality() const override { return size_; }
  std::string describe() const override { return name_; }
  std::uint64_t depth() const override { return 0; }
  std::int64_t size() const { return size_; }
  T at(std::int64_t index) const { return element_(index); }

 private:
  std::int64_t size_;
  std::function<T(std::int64_t)> element_;
  std::string name_;
};

}  // namespace internal

/// A dataset of `size` elements, each made when it is asked for by `element(index)`, which must be
/// a pure function that several threads may call. `name` stands in messages. Throws
/// kInvalidArgument if `size` is negative.
template <class T>
Dataset<T> from_indexed(std::int64_t size, std::function<T(std::int64_t)> element,
                        std::string name) {
  internal::check_source_size(size, name);
  return Dataset<T>(
      std::make_shared<const internal::IndexedNode<T>>(size, std::move(element), std::move(name)));
}

/// A dataset of the elements of a vector; iterators return copies.
template <class T>
Dataset<T> from_elements(std::vector<T> elements, std::string name = "from_elements") {
  const auto size = static_cast<std::int64_t>(elements.size());
  auto shared = std::make_shared<const std::vector<T>>(std::move(elements));
  return from_indexed<T>(
      size, [shared](std::int64_t index) { return (*shared)[static_cast<std::size_t>(index)]; },
      std::move(name));
}

/// The numbers 0, 1, ... size - 1. TensorFlow counterpart: Dataset.range(size).
Dataset<std::int64_t> range(std::int64_t size);

}  // namespace brigade::data
