#include "brigade/comm/exchange/exchange_link.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "brigade/base/copy_bytes.h"
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

/// A flat byte view of `tensor`, which shares ownership of its memory.
at::Tensor as_bytes(const at::Tensor& tensor) {
  return view_of(tensor, {static_cast<std::int64_t>(tensor.nbytes())}, at::kByte);
}

/// The rank counted from the root, whose relative rank is 0. The parent of a relative rank is that
/// number without its lowest bit.
int relative_rank(int rank, int root, int world_size) {
  return (rank - root + world_size) % world_size;
}

}  // namespace

ExchangeLink::ExchangeLink(const std::shared_ptr<cluster::Membership>& membership,
                           const std::string& name, const CommunicationOptions& options)
    : ProcessLink(membership->self().rank, static_cast<int>(membership->members().size()),
                  kChunkBytes),
      membership_(membership),
      options_(options),
      peer_status_(membership, name) {}

void ExchangeLink::begin_call(std::string_view what) {
  what_ = what;
  peer_status_.begin_call();
}

// Shorter parts are padded to the longest.
GatheredBytes ExchangeLink::gather(std::span<const std::byte> mine, std::int64_t longest) {
  const at::Tensor padded = at::empty({longest}, at::kByte);
  base::copy_bytes(data_of(padded), mine.data(), mine.size());
  gathered_ = at::empty({world_size(), longest}, at::kByte);
  start_all_gather(padded, gathered_)->wait();
  return {.first = data_of(gathered_), .row = longest, .sent = longest * (world_size() - 1)};
}

void ExchangeLink::broadcast(std::span<const FlatTensor> tensors, int root) {
  const auto sends =
      static_cast<std::int64_t>(binomial_children(rank(), root, world_size()).size());
  for (const Chunk& chunk : cut_into_chunks(tensors, kChunkBytes)) {
    const at::Tensor values = at::empty({chunk.numel}, at::TensorOptions(chunk.dtype));
    if (rank() == root) copy_in(chunk, tensors, values);
    broadcast_bytes(as_bytes(values), root);
    count_sent(sends * static_cast<std::int64_t>(values.nbytes()));
    if (rank() != root) copy_out(chunk, tensors, values);
  }
}

void ExchangeLink::reduce(std::span<const FlatTensor> tensors, ReduceOp op) {
  const std::vector<Chunk> chunks = cut_into_chunks(tensors, kChunkBytes);
  // While one chunk's parts are added, the next chunk's are being gathered.
  Gathering last;
  for (const Chunk& chunk : chunks) {
    Gathering next;
    if (goes_in_one_round(chunk)) next = start(chunk, tensors);
    if (last.transfer) finish(last, tensors, op);
    if (!next.transfer) reduce_by_shards(chunk, tensors, op);
    last = std::move(next);
  }
  if (last.transfer) finish(last, tensors, op);
}

bool ExchangeLink::goes_in_one_round(const Chunk& chunk) const {
  return world_size() == 2 || chunk.numel * size_of(chunk.dtype) <= kSmallBytes;
}

ExchangeLink::Gathering ExchangeLink::start(const Chunk& chunk,
                                            std::span<const FlatTensor> tensors) {
  const std::size_t parity = ++gatherings_started_ % 2;
  const at::ScalarType dtype = dtype_of(chunk);
  Gathering gathering{.chunk = &chunk};
  gathering.all = scratch(ScratchUse::kParts, parity, {world_size(), chunk.numel}, dtype);
  // With two ranks a part is sent from the buffer in which it is added.
  const at::Tensor mine = world_size() == 2
                              ? gathering.all[rank()]
                              : scratch(ScratchUse::kMine, parity, {chunk.numel}, dtype);
  copy_in(chunk, tensors, mine);
  const std::int64_t bytes = chunk.numel * size_of(dtype);
  gathering.transfer =
      start_all_gather(as_bytes(mine), as_bytes(gathering.all).view({world_size(), bytes}));
  count_sent(bytes * (world_size() - 1));
  return gathering;
}

void ExchangeLink::finish(Gathering& gathering, std::span<const FlatTensor> tensors, ReduceOp op) {
  gathering.transfer->wait();
  const at::Tensor sums = combine(*gathering.chunk, gathering.all, op);
  if (gathering.chunk->narrow) round_to_wire(sums, options_.wire);
  copy_out(*gathering.chunk, tensors, sums);
}

// Shards have equal sizes: the last one is padded.
void ExchangeLink::reduce_by_shards(const Chunk& chunk, std::span<const FlatTensor> tensors,
                                    ReduceOp op) {
  const at::ScalarType dtype = dtype_of(chunk);
  const std::int64_t shard = (chunk.numel + world_size() - 1) / world_size();
  const std::int64_t bytes = shard * size_of(dtype);
  const at::Tensor mine = scratch(ScratchUse::kShards, 0, {shard * world_size()}, dtype);
  copy_in(chunk, tensors, mine);
  mine.narrow(0, chunk.numel, mine.numel() - chunk.numel).zero_();
  const at::Tensor parts = scratch(ScratchUse::kShardParts, 0, {world_size(), shard}, dtype);
  start_all_to_all(as_bytes(mine).view({world_size(), bytes}),
                   as_bytes(parts).view({world_size(), bytes}))
      ->wait();
  const at::Tensor sums = combine(chunk, parts, op).to(dtype);
  const at::Tensor all = at::empty({shard * world_size()}, mine.options());
  start_all_gather(as_bytes(sums), as_bytes(all).view({world_size(), bytes}))->wait();
  count_sent(2 * bytes * (world_size() - 1));
  copy_out(chunk, tensors, all);
}

at::ScalarType ExchangeLink::dtype_of(const Chunk& chunk) const {
  return chunk.narrow ? wire_dtype(options_.wire, chunk.dtype) : chunk.dtype;
}

// Parts are added in the chunk's own dtype.
at::Tensor ExchangeLink::combine(const Chunk& chunk, const at::Tensor& parts, ReduceOp op) {
  std::vector<at::Tensor> widened;
  for (int rank = 0; rank < world_size(); ++rank) widened.push_back(parts[rank].to(chunk.dtype));
  const at::Tensor sums = scratch(ScratchUse::kSums, 0, {parts.size(1)}, chunk.dtype);
  combine_range(widened, op, 0, sums.numel(), sums);
  return sums;
}

// Reused from call to call: fresh pages cost as much as sending over loopback.
at::Tensor ExchangeLink::scratch(ScratchUse use, std::size_t parity, at::IntArrayRef shape,
                                 at::ScalarType dtype) {
  std::int64_t bytes = size_of(dtype);
  for (const std::int64_t size : shape) bytes *= size;
  at::Tensor& memory = scratch_[static_cast<std::size_t>(use) + parity];
  if (!memory.defined() || memory.numel() < bytes) memory = at::empty({bytes}, at::kByte);
  return view_of(memory, shape, dtype);
}

std::vector<int> binomial_children(int rank, int root, int world_size) {
  const int relative = relative_rank(rank, root, world_size);
  std::vector<int> children;
  for (int bit = 1; relative + bit < world_size && (relative & bit) == 0; bit <<= 1)
    children.push_back((relative + bit + root) % world_size);
  std::reverse(children.begin(), children.end());
  return children;
}

int binomial_parent(int rank, int root, int world_size) {
  const int relative = relative_rank(rank, root, world_size);
  return ((relative & (relative - 1)) + root) % world_size;
}

}  // namespace brigade::comm
