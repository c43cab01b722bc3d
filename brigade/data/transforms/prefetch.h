#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/pipelined_iterator.h"
#include "brigade/data/runtime/autotune.h"

namespace brigade::data {

namespace internal {

/// The settings for one thread and a buffer of `depth` at first.
PipelineOptions pipeline_of_prefetch(std::int64_t count, std::size_t depth,
                                     const IteratorOptions& job, Order input_order,
                                     const std::string& path);

template <class T>
class PrefetchNode final : public TransformNode<T> {
 public:
  PrefetchNode(NodePtr<T> input, std::int64_t count)
      : TransformNode<T>(std::move(input), "prefetch"),
        count_(count),
        depth_(depth_for(count, "prefetch")) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    auto end = std::make_unique<const concurrency::LinkedToken>(options.cancel);
    const IteratorOptions job = options_ended_by(*end, options);
    const Node<T>& from = this->input_in_any_order();
    return std::make_unique<PipelinedIterator<T, T>>(
        from.iterator(job), [](T&& element, std::uint64_t) { return std::move(element); },
        pipeline_of_prefetch(count_, depth_, job, from.order(job), this->describe()),
        std::move(end));
  }
  std::int64_t cardinality() const override { return this->input().cardinality(); }

 private:
  std::int64_t count_;
  std::size_t depth_;
};

}  // namespace internal

/// See `Dataset::prefetch`.
template <class T>
NodePtr<T> make_prefetch(NodePtr<T> input, std::int64_t count) {
  return std::make_shared<const internal::PrefetchNode<T>>(std::move(input), count);
}

}  // namespace brigade::data
