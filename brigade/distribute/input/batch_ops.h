#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/base/random.h"
#include "brigade/data/core/forwarding_iterator.h"
#include "brigade/data/core/node.h"
#include "brigade/input/split.h"
#include "brigade/input/to_device.h"

namespace brigade::distribute {

/// What a strategy's input does with batches: the functions of one batch type, for code that is
/// compiled once for all types and holds a batch in a `std::any`.
///
/// Thread-safety: pure functions.
struct BatchOps {
  using Change = std::function<at::Tensor(const at::Tensor&)>;

  std::int64_t (*examples_in)(const std::any& batch) = nullptr;
  std::any (*examples_between)(const std::any& batch, std::int64_t begin,
                               std::int64_t end) = nullptr;
  std::any (*each_tensor)(const std::any& batch, const Change& change) = nullptr;
};

template <input::Splittable B>
inline constexpr BatchOps kBatchOps{
    .examples_in =
        [](const std::any& batch) { return input::examples_in(std::any_cast<const B&>(batch)); },
    .examples_between =
        [](const std::any& batch, std::int64_t begin, std::int64_t end) {
          return std::any(input::examples_between(std::any_cast<const B&>(batch), begin, end));
        },
    .each_tensor =
        [](const std::any& batch, const BatchOps::Change& change) {
          return std::any(input::each_tensor(std::any_cast<const B&>(batch), change));
        }};

/// A dataset with each element in a `std::any`. It is no separate step in the pipeline's
/// description, so positions and statistics are those of the dataset.
///
/// Thread-safety: as the dataset.
template <class T>
class AnyNode final : public data::Node<std::any> {
 public:
  explicit AnyNode(data::NodePtr<T> node) : node_(std::move(node)) {}
  std::unique_ptr<data::IteratorBase<std::any>> iterator(
      const data::IteratorOptions& options) const override {
    return std::make_unique<Iterator>(node_->iterator(options));
  }
  std::int64_t cardinality() const override { return node_->cardinality(); }
  std::string describe() const override { return node_->describe(); }
  data::PipelineDescription pipeline() const override { return node_->pipeline(); }
  std::uint64_t depth() const override { return node_->depth(); }
  data::ShardingInfo sharding() const override { return node_->sharding(); }
  data::Order order(const data::IteratorOptions& options) const override {
    return node_->order(options);
  }

 private:
  class Iterator final : public data::internal::ForwardingIterator<std::any, T> {
   public:
    explicit Iterator(std::unique_ptr<data::IteratorBase<T>> base)
        : data::internal::ForwardingIterator<std::any, T>(std::move(base)) {}
    std::optional<std::any> next() override {
      std::optional<T> element = this->base_->next();
      if (!element) return std::nullopt;
      return std::any(std::move(*element));
    }
  };

  data::NodePtr<T> node_;
};

/// What the function of `DistributedDataset::map_on_replica` knows about the batch that it is
/// called with. All its random numbers, those of `rng` and those of tensor operations, are
/// functions of (seed, epoch, step, replica): they depend neither on how far ahead the batch is
/// made nor on whether training was resumed.
struct ReplicaMapContext {
  int replica;          ///< its index among the replicas of all workers
  std::uint64_t epoch;  ///< of the dataset
  std::uint64_t step;   ///< of the epoch, counted from 0
  c10::Device device;   ///< where the batch is, and where the work is queued
  base::CounterRng& rng;
};

/// Maps a per-replica batch to another with the same number of examples, which may be 0. Called by
/// one thread at a time. The tensors may share memory with the whole data set: return new tensors
/// instead of changing these in place.
template <class B>
using ReplicaMapFunction = std::function<B(B batch, ReplicaMapContext& context)>;

/// What `DistributedDataset::map_on_replica` must know of a function.
struct ReplicaMapOptions {
  /// Whether it draws random numbers. If it does, saved positions hold what its numbers depend on,
  /// and fit only datasets with such a function; if not, positions are those of the dataset without
  /// the function, so that a job can resume where the same is done in another way.
  bool draws = true;
};

}  // namespace brigade::distribute
