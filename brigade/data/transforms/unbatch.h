#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/transforms/batch_cursor.h"
#include "brigade/data/core/structure.h"

namespace brigade::data {

namespace internal {

template <class B>
class UnbatchIterator final : public IteratorBase<typename Unbatch<B>::Element> {
 public:
  using Element = typename Unbatch<B>::Element;

  explicit UnbatchIterator(BatchCursor<B> batches) : batches_(std::move(batches)) {}
  std::optional<Element> next() override {
    if (batches_.left() == 0 && !batches_.open_next()) return std::nullopt;
    const std::int64_t index = batches_.index();
    batches_.pass(1);
    return Unbatch<B>::element(batches_.batch(), index);
  }
  std::uint64_t skip(std::uint64_t count) override {
    std::uint64_t passed = 0;
    while (passed < count) {
      try {
        if (batches_.left() == 0 && !batches_.open_next()) return passed;
      } catch (...) {  // a failed batch counts as one failed element
        rethrow_if_cancelled();
        ++passed;
        continue;
      }
      const std::uint64_t part =
          std::min(count - passed, static_cast<std::uint64_t>(batches_.left()));
      batches_.pass(static_cast<std::int64_t>(part));
      passed += part;
    }
    return passed;
  }
  io::StateTree save() const override { return make_position("unbatch", {}, batches_.save()); }
  void restore(const io::StateTree& state) override {
    check_position(state, "unbatch");
    batches_.restore(position_input(state));
  }

 private:
  BatchCursor<B> batches_;
};

template <class B>
class UnbatchNode final : public TransformNode<typename Unbatch<B>::Element, B> {
 public:
  using Element = typename Unbatch<B>::Element;

  explicit UnbatchNode(NodePtr<B> input) : TransformNode<Element, B>(std::move(input), "unbatch") {}
  std::unique_ptr<IteratorBase<Element>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<UnbatchIterator<B>>(
        BatchCursor<B>(this->input().iterator(options), options.cancel));
  }
  std::int64_t cardinality() const override {
    return this->input().cardinality() == kInfinite ? kInfinite : kUnknown;
  }
};

}  // namespace internal

/// See `Dataset::unbatch`.
template <class B>
NodePtr<typename Unbatch<B>::Element> make_unbatch(NodePtr<B> input) {
  return std::make_shared<const internal::UnbatchNode<B>>(std::move(input));
}

}  // namespace brigade::data
