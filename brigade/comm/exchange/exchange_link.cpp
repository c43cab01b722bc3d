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

/// What each rank sends if it sends `bytes` for each of its parts.
std::vector<std::int64_t> sizes_of(const ReductionBlocks& blocks, std::int64_t bytes) {
  std::vector<std::int64_t> sizes;
  for (int rank = 0; rank < blocks.num_ranks(); ++rank)
    sizes.push_back(static_cast<std::int64_t>(blocks.num_parts(rank)) * bytes);
  return sizes;
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
  start_all_gather(padded, gathered_.view(-1),
                   Sizes(static_cast<std::size_t>(world_size()), longest))
      ->wait();
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

void ExchangeLink::reduce(std::span<const FlatTensor> tensors, ReduceOp op,
                          const ReductionBlocks& blocks) {
  const std::vector<Chunk> chunks = cut_into_chunks(tensors, kChunkBytes);
  // While one chunk's parts are added, the next chunk's are being gathered.
  Gathering last;
  for (const Chunk& chunk : chunks) {
    Gathering next;
    if (goes_in_one_round(chunk, blocks)) next = start(chunk, tensors, blocks);
    if (last.transfer) finish(last, tensors, op, blocks);
    if (!next.transfer) reduce_by_shards(chunk, tensors, op, blocks);
    last = std::move(next);
  }
  if (last.transfer) finish(last, tensors, op, blocks);
}

// Two rounds are as many bytes as one between two ranks of one part each, and fewer otherwise.
bool ExchangeLink::goes_in_one_round(const Chunk& chunk, const ReductionBlocks& blocks) const {
  const bool is_small = chunk.numel * size_of(chunk.dtype) <= kSmallBytes;
  return is_small || (world_size() == 2 && blocks.most_parts() == 1);
}

ExchangeLink::Gathering ExchangeLink::start(const Chunk& chunk, std::span<const FlatTensor> tensors,
                                            const ReductionBlocks& blocks) {
  const std::size_t parity = ++gatherings_started_ % 2;
  const at::ScalarType dtype = dtype_of(chunk);
  Gathering gathering{.chunk = &chunk};
  const auto all_parts = static_cast<std::int64_t>(blocks.tree().parts().size());
  const auto own_parts = static_cast<std::int64_t>(blocks.num_parts(rank()));
  gathering.all = scratch(ScratchUse::kParts, parity, {all_parts, chunk.numel}, dtype);
  // With two ranks parts are sent from the buffer in which they are added.
  const at::Tensor mine =
      world_size() == 2
          ? gathering.all.narrow(0, static_cast<std::int64_t>(blocks.first_part(rank())), own_parts)
          : scratch(ScratchUse::kMine, parity, {own_parts, chunk.numel}, dtype);
  for (std::int64_t part = 0; part < own_parts; ++part)
    copy_in(chunk, tensors, mine[part], static_cast<std::size_t>(part));
  const Sizes sizes = sizes_of(blocks, chunk.numel * size_of(dtype));
  gathering.transfer = start_all_gather(as_bytes(mine), as_bytes(gathering.all), sizes);
  count_sent(sizes[static_cast<std::size_t>(rank())] * (world_size() - 1));
  return gathering;
}

void ExchangeLink::finish(Gathering& gathering, std::span<const FlatTensor> tensors, ReduceOp op,
                          const ReductionBlocks& blocks) {
  gathering.transfer->wait();
  const at::Tensor sums = combine(*gathering.chunk, gathering.all, op, blocks);
  if (gathering.chunk->narrow) round_to_wire(sums, options_.wire);
  copy_out(*gathering.chunk, tensors, sums);
}

// Shards have equal sizes: the last one is padded.
void ExchangeLink::reduce_by_shards(const Chunk& chunk, std::span<const FlatTensor> tensors,
                                    ReduceOp op, const ReductionBlocks& blocks) {
  const at::ScalarType dtype = dtype_of(chunk);
  const std::int64_t shard = (chunk.numel + world_size() - 1) / world_size();
  const std::int64_t bytes = shard * size_of(dtype);
  const auto all_parts = static_cast<std::int64_t>(blocks.tree().parts().size());
  const auto own_parts = static_cast<std::int64_t>(blocks.num_parts(rank()));
  const at::Tensor mine = scratch(ScratchUse::kShards, 0, {world_size(), own_parts, shard}, dtype);
  copy_shards_in(chunk, tensors, mine);
  const at::Tensor parts = scratch(ScratchUse::kShardParts, 0, {all_parts, shard}, dtype);
  start_all_to_all(as_bytes(mine), as_bytes(parts), sizes_of(blocks, bytes))->wait();
  const at::Tensor sums = combine(chunk, parts, op, blocks).to(dtype);
  const at::Tensor all = at::empty({shard * world_size()}, mine.options());
  start_all_gather(as_bytes(sums), as_bytes(all),
                   Sizes(static_cast<std::size_t>(world_size()), bytes))
      ->wait();
  count_sent((own_parts + 1) * bytes * (world_size() - 1));
  copy_out(chunk, tensors, all);
}

/// Copies this rank's parts to `shards` [world_size, own parts, shard].
void ExchangeLink::copy_shards_in(const Chunk& chunk, std::span<const FlatTensor> tensors,
                                  const at::Tensor& shards) {
  const std::int64_t padded = shards.size(0) * shards.size(2);
  for (std::int64_t part = 0; part < shards.size(1); ++part) {
    const at::Tensor flat = shards.size(1) == 1
                                ? shards.view(-1)
                                : scratch(ScratchUse::kPart, 0, {padded}, shards.scalar_type());
    copy_in(chunk, tensors, flat, static_cast<std::size_t>(part));
    flat.narrow(0, chunk.numel, padded - chunk.numel).zero_();
    if (shards.size(1) > 1)
      shards.select(1, part).copy_(flat.view({shards.size(0), shards.size(2)}));
  }
}

at::ScalarType ExchangeLink::dtype_of(const Chunk& chunk) const {
  return chunk.narrow ? wire_dtype(options_.wire, chunk.dtype) : chunk.dtype;
}

// Parts are added in the chunk's own dtype.
at::Tensor ExchangeLink::combine(const Chunk& chunk, const at::Tensor& parts, ReduceOp op,
                                 const ReductionBlocks& blocks) {
  std::vector<at::Tensor> widened;
  for (std::int64_t part = 0; part < parts.size(0); ++part)
    widened.push_back(parts[part].to(chunk.dtype));
  const at::Tensor sums = scratch(ScratchUse::kSums, 0, {parts.size(1)}, chunk.dtype);
  combine_range(widened, blocks.tree(), op, 0, sums.numel(), sums);
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
