#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/pipelined_iterator.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/runtime/autotune.h"

namespace brigade::data {

/// See `Dataset::prefetch`.
template <class T>
NodePtr<T> make_prefetch(NodePtr<T> input, std::int64_t count) {
  const std::size_t depth = depth_for(count, "prefetch");
  return internal::make_transform<T>(
      std::move(input), {.name = "prefetch"},
      [count, depth](const Node<T>& from, const IteratorOptions& options, const Node<T>& self) {
        auto end = std::make_unique<const concurrency::LinkedToken>(options.cancel);
        const IteratorOptions job = options_ended_by(*end, options);
        const StageLimits limits{.max_capacity = count == kAutotune ? kMaxTunedDepth : 0};
        return std::make_unique<PipelinedIterator<T, T>>(
            from.iterator(job), [](T&& element, std::uint64_t) { return std::move(element); },
            pipeline_of_step("prefetch", {1, depth}, limits, job, from.order(job), self.describe()),
            std::move(end));
      });
}

}  // namespace brigade::data
