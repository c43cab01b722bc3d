#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/order.h"
#include "brigade/data/runtime/stages.h"

namespace brigade::data {

/// Options of a `PipelinedIterator`.
struct PipelineOptions {
  /// The name of the transform, for saved states and thread names.
  std::string name{};
  std::size_t workers = 1;
  /// The most chunks of elements in progress or waiting for the consumer.
  std::size_t capacity = 1;
  /// The most elements that a worker takes at a time. Workers start with one, and take more while
  /// the work on an element costs little compared with passing it between threads.
  std::size_t max_chunk = 1;
  /// Whether results are returned in the input's order, or as they are ready.
  Order order = Order::kInOrder;
  /// Whether the input returns the same elements in the same order when it is read again from a
  /// saved position. If not, the workers save a snapshot of it at every element.
  Order input_order = Order::kInOrder;
  /// Ends all waits. Unset: cannot be cancelled.
  std::optional<concurrency::CancelToken> cancel{};
  /// Where this step records its statistics, and from where it reads `workers` and `capacity`,
  /// which then may change while it runs; `max_slots` is the most that `capacity` can become. Null:
  /// not measured.
  std::shared_ptr<Stages> stages{};
  Stage* stage = nullptr;
  std::size_t max_slots = 0;
};

/// The size of a pipeline's ring of slots. In relaxed order it is larger than the capacity, so that
/// other elements can overtake a slow one.
std::size_t slots_for(const PipelineOptions& options);

}  // namespace brigade::data
