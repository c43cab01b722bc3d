#include "brigade/comm/local/ordered_reduction.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <vector>

#include "brigade/comm/exchange/wire.h"
#include "brigade/comm/local/reduce_kernel.h"

namespace brigade::comm {

namespace {

/// A view of the start of `memory`, which it owns too: a transfer that was aborted may still write
/// there.
at::Tensor view_of(const at::Tensor& memory, at::IntArrayRef shape, at::ScalarType dtype) {
  return at::from_blob(
      memory.mutable_data_ptr(), shape, [memory](void*) {}, at::TensorOptions(dtype));
}

std::int64_t size_of(at::ScalarType dtype) {
  return static_cast<std::int64_t>(c10::elementSize(dtype));
}

}  // namespace

at::Tensor as_bytes(const at::Tensor& tensor) {
  return view_of(tensor, {static_cast<std::int64_t>(tensor.nbytes())}, at::kByte);
}

OrderedReduction::OrderedReduction(int rank, int world_size, WireType wire)
    : rank_(rank), world_size_(world_size), wire_(wire) {}

std::int64_t OrderedReduction::reduce(ByteExchange& exchange, std::span<const FlatTensor> tensors,
                                      ReduceOp op) {
  sent_ = 0;
  const std::vector<Chunk> chunks = cut_into_chunks(tensors, kChunkBytes);
  // While one chunk's parts are added, the next chunk's are being gathered.
  Gathering last;
  for (const Chunk& chunk : chunks) {
    Gathering next;
    if (goes_in_one_round(chunk)) next = start(exchange, chunk, tensors);
    if (last.transfer) finish(last, tensors, op);
    if (!next.transfer) reduce_by_shards(exchange, chunk, tensors, op);
    last = std::move(next);
  }
  if (last.transfer) finish(last, tensors, op);
  return sent_;
}

bool OrderedReduction::goes_in_one_round(const Chunk& chunk) const {
  return world_size_ == 2 || chunk.numel * size_of(chunk.dtype) <= kSmallBytes;
}

OrderedReduction::Gathering OrderedReduction::start(ByteExchange& exchange, const Chunk& chunk,
                                                    std::span<const FlatTensor> tensors) {
  const std::size_t parity = ++gatherings_started_ % 2;
  const at::ScalarType dtype = dtype_of(chunk);
  Gathering gathering{.chunk = &chunk};
  gathering.all = scratch(ScratchUse::kParts, parity, {world_size_, chunk.numel}, dtype);
  // With two ranks a part is sent from the buffer in which it is added.
  const at::Tensor mine = world_size_ == 2
                              ? gathering.all[rank_]
                              : scratch(ScratchUse::kMine, parity, {chunk.numel}, dtype);
  copy_in(chunk, tensors, mine);
  const std::int64_t bytes = chunk.numel * size_of(dtype);
  gathering.transfer =
      exchange.start_all_gather(as_bytes(mine), as_bytes(gathering.all).view({world_size_, bytes}));
  sent_ += bytes * (world_size_ - 1);
  return gathering;
}

void OrderedReduction::finish(Gathering& gathering, std::span<const FlatTensor> tensors,
                              ReduceOp op) {
  gathering.transfer->wait();
  const at::Tensor sums = combine(*gathering.chunk, gathering.all, op);
  if (gathering.chunk->narrow) round_to_wire(sums, wire_);
  copy_out(*gathering.chunk, tensors, sums);
}

// Shards have equal sizes: the last one is padded.
void OrderedReduction::reduce_by_shards(ByteExchange& exchange, const Chunk& chunk,
                                        std::span<const FlatTensor> tensors, ReduceOp op) {
  const at::ScalarType dtype = dtype_of(chunk);
  const std::int64_t shard = (chunk.numel + world_size_ - 1) / world_size_;
  const std::int64_t bytes = shard * size_of(dtype);
  const at::Tensor mine = scratch(ScratchUse::kShards, 0, {shard * world_size_}, dtype);
  copy_in(chunk, tensors, mine);
  mine.narrow(0, chunk.numel, mine.numel() - chunk.numel).zero_();
  const at::Tensor parts = scratch(ScratchUse::kShardParts, 0, {world_size_, shard}, dtype);
  exchange
      .start_all_to_all(as_bytes(mine).view({world_size_, bytes}),
                        as_bytes(parts).view({world_size_, bytes}))
      ->wait();
  const at::Tensor sums = combine(chunk, parts, op).to(dtype);
  const at::Tensor all = at::empty({shard * world_size_}, mine.options());
  exchange.start_all_gather(as_bytes(sums), as_bytes(all).view({world_size_, bytes}))->wait();
  sent_ += 2 * bytes * (world_size_ - 1);
  copy_out(chunk, tensors, all);
}

at::ScalarType OrderedReduction::dtype_of(const Chunk& chunk) const {
  return chunk.narrow ? wire_dtype(wire_, chunk.dtype) : chunk.dtype;
}

// Parts are added in the chunk's own dtype.
at::Tensor OrderedReduction::combine(const Chunk& chunk, const at::Tensor& parts, ReduceOp op) {
  std::vector<at::Tensor> widened;
  for (int rank = 0; rank < world_size_; ++rank) widened.push_back(parts[rank].to(chunk.dtype));
  const at::Tensor sums = scratch(ScratchUse::kSums, 0, {parts.size(1)}, chunk.dtype);
  combine_range(widened, op, 0, sums.numel(), sums);
  return sums;
}

// Reused from call to call: fresh pages cost as much as sending over loopback.
at::Tensor OrderedReduction::scratch(ScratchUse use, std::size_t parity, at::IntArrayRef shape,
                                     at::ScalarType dtype) {
  std::int64_t bytes = size_of(dtype);
  for (const std::int64_t size : shape) bytes *= size;
  at::Tensor& memory = scratch_[static_cast<std::size_t>(use) + parity];
  if (!memory.defined() || memory.numel() < bytes) memory = at::empty({bytes}, at::kByte);
  return view_of(memory, shape, dtype);
}

}  // namespace brigade::comm
