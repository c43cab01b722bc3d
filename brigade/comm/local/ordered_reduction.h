#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "brigade/comm/communicator.h"
#include "brigade/comm/exchange/byte_exchange.h"
#include "brigade/comm/local/chunks.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// Reductions that add in rank order over a ByteExchange, in chunks of at most kChunkBytes:
///   1. With two ranks, or up to kSmallBytes, every rank gathers all parts and adds them itself.
///   2. Otherwise an all-to-all gives each rank all parts of its shard; it adds them, and an
///      all-gather sends the sums to all ranks.
/// Bits depend only on the parts and their number.
///
/// Thread-safety: one call at a time.
class OrderedReduction {
 public:
  static constexpr std::int64_t kChunkBytes = 4 << 20;
  /// Up to this size one round is faster than sending fewer bytes in two.
  static constexpr std::int64_t kSmallBytes = 4 * 1024;

  OrderedReduction(int rank, int world_size, WireType wire);

  /// In place. Returns how many bytes of values this rank sent. Throws what transfers throw.
  std::int64_t reduce(ByteExchange& exchange, std::span<const FlatTensor> tensors, ReduceOp op);

 private:
  /// A chunk whose parts are being gathered.
  struct Gathering {
    const Chunk* chunk = nullptr;
    at::Tensor all = {};  ///< all parts, by rank
    std::unique_ptr<ByteExchange::Transfer> transfer = nullptr;
  };

  bool goes_in_one_round(const Chunk& chunk) const;
  Gathering start(ByteExchange& exchange, const Chunk& chunk, std::span<const FlatTensor> tensors);
  void finish(Gathering& gathering, std::span<const FlatTensor> tensors, ReduceOp op);
  void reduce_by_shards(ByteExchange& exchange, const Chunk& chunk,
                        std::span<const FlatTensor> tensors, ReduceOp op);
  at::ScalarType dtype_of(const Chunk& chunk) const;
  at::Tensor combine(const Chunk& chunk, const at::Tensor& parts, ReduceOp op);

  /// What scratch memory is used for. The first two exist twice, for alternate chunks.
  enum class ScratchUse {
    kParts = 0,
    kMine = 2,
    kSums = 4,
    kShards = 5,
    kShardParts = 6,
    kCount = 7
  };
  at::Tensor scratch(ScratchUse use, std::size_t parity, at::IntArrayRef shape,
                     at::ScalarType dtype);

  const int rank_;
  const int world_size_;
  const WireType wire_;
  std::array<at::Tensor, static_cast<std::size_t>(ScratchUse::kCount)> scratch_;
  std::uint64_t gatherings_started_ = 0;
  std::int64_t sent_ = 0;
};

/// A flat byte view of `tensor`, which shares ownership of its memory.
at::Tensor as_bytes(const at::Tensor& tensor);

}  // namespace brigade::comm
