#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/order.h"
#include "brigade/data/runtime/stages.h"

namespace brigade::data {

/// How a `PipelinedIterator` runs.
struct PipelineOptions {
  /// The transform, for saved states and for the names of threads.
  std::string name{};
  std::size_t workers = 1;
  /// Chunks of elements that may be under way or waiting for the consumer.
  std::size_t capacity = 1;
  /// The most elements that a worker takes at once. Workers start with one and take more while the
  /// work on them costs little beside handing them over between threads.
  std::size_t max_chunk = 1;
  /// Whether results leave in the input's order, or as they are ready.
  Order order = Order::kInOrder;
  /// Whether the input gives the same elements in the same order when it is read again from a saved
  /// position. If it does not, its position is noted at every element.
  Order input_order = Order::kInOrder;
  /// Ends all waits. Unset: nobody cancels.
  std::optional<concurrency::CancelToken> cancel{};
  /// Where this step counts and from where it takes `workers` and `capacity`, which then may change
  /// while it runs; `max_slots` is the most that the capacity comes to. Null: nowhere.
  std::shared_ptr<Stages> stages{};
  Stage* stage = nullptr;
  std::size_t max_slots = 0;
};

/// Slots in the ring of a pipeline: more than may be in use where the order is relaxed, so that a
/// slow element lets others pass.
std::size_t slots_for(const PipelineOptions& options);

}  // namespace brigade::data
