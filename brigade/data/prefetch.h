#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "brigade/data/autotune.h"
#include "brigade/data/node.h"
#include "brigade/data/pipeline.h"

namespace brigade::data {

namespace internal {

template <class T>
class PrefetchNode final : public TransformNode<T> {
 public:
  PrefetchNode(NodePtr<T> input, std::size_t depth)
      : TransformNode<T>(std::move(input), "prefetch"), depth_(depth) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<PipelinedIterator<T, T>>(
        this->input().iterator(options),
        [](T&& element, std::uint64_t) { return std::move(element); },
        PipelineOptions{.name = "prefetch", .workers = 1, .capacity = depth_});
  }
  std::int64_t cardinality() const override { return this->input().cardinality(); }

 private:
  std::size_t depth_;
};

}  // namespace internal

/// See `Dataset::prefetch`.
template <class T>
NodePtr<T> make_prefetch(NodePtr<T> input, std::int64_t count) {
  return std::make_shared<const internal::PrefetchNode<T>>(std::move(input),
                                                           depth_for(count, "prefetch"));
}

}  // namespace brigade::data
