#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/split.h"
#include "brigade/input/structure.h"
#include "brigade/input/to_device.h"

namespace brigade::slim {

/// The batches of a training, cut for its replicas, one after the other. The one in front stays
/// until it was used, so that the pass that makes the variables may see it first, and a step that
/// failed may have it again.
///
/// Thread-safety: one thread.
template <class B>
class ShareQueue {
 public:
  using Shares = distribute::PerReplica<B>;

  /// `next` gives the next batch at each call, nothing at the end.
  explicit ShareQueue(std::function<std::optional<Shares>()> next) : next_(std::move(next)) {}

  /// The batch in front; null at the end of the data.
  const Shares* front() {
    if (!front_) front_ = next_();
    return front_ ? &*front_ : nullptr;
  }
  void pop() { front_.reset(); }

  /// The first replica's share of it. Throws kOutOfRange at the end.
  const B& first_share() {
    if (front() == nullptr)
      throw Error(ErrorCode::kOutOfRange, "The training data has no batch at all.");
    return (*front_)[0];
  }

 private:
  std::function<std::optional<Shares>()> next_;
  std::optional<Shares> front_;
};

/// A global batch as the replicas' shares, on their devices.
template <class B>
distribute::PerReplica<B> cut_for(const distribute::Strategy& strategy, const B& batch) {
  std::vector<B> shares = input::split(batch, strategy.num_replicas_in_sync());
  std::vector<std::int64_t> counts;
  for (std::size_t replica = 0; replica < shares.size(); ++replica) {
    counts.push_back(data::Structure<B>::size(shares[replica]));
    shares[replica] = input::to_device(shares[replica], strategy.devices()[replica].torch_device);
  }
  return distribute::PerReplica<B>(std::move(shares),
                                   distribute::ExampleCounts::of(std::move(counts)));
}

}  // namespace brigade::slim
