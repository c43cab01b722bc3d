#include "brigade/comm/shared_memory/shared_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

#include "brigade/base/copy_bytes.h"
#include "brigade/base/strings.h"
#include "brigade/comm/exchange/wire.h"
#include "brigade/comm/local/chunks.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/shared_memory/shared_layout.h"

namespace brigade::comm {

namespace {

/// So that a block stays in a core's own cache together with the parts that are added.
constexpr std::int64_t kBlock = 32 * 1024;
/// Up to this size every rank adds everything itself, which saves one barrier.
constexpr std::int64_t kSmallBytes = 16 * 1024;
constexpr std::chrono::microseconds kSpin{500};

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class SharedMemoryLink final : public ProcessLink {
 public:
  SharedMemoryLink(std::shared_ptr<cluster::Membership> membership, SharedLayout layout,
                   const CommunicationOptions& options)
      : membership_(std::move(membership)),
        rank_(membership_->self().rank),
        world_size_(layout.world_size()),
        wire_(options.wire),
        layout_(std::move(layout)),
        barrier_(layout_.slots(), layout_.failure(), membership_,
                 {.timeout = options.timeout, .slow_after = options.slow_after}),
        headers_(static_cast<std::size_t>(world_size_)) {
    choose_spin();
  }

  Transport transport() const override { return Transport::kSharedMemory; }
  std::int64_t bytes_sent() const override { return bytes_sent_; }

  std::span<const CallHeader> exchange(const CallHeader& mine) override {
    const std::size_t parity = ++calls_ % 2;
    layout_.area(rank_).headers[parity] = mine;
    what_ = to_string(mine.call);
    wait_for_all();
    for (int rank = 0; rank < world_size_; ++rank)
      headers_[rank] = layout_.area(rank).headers[parity];
    return headers_;
  }

  std::vector<std::string> exchange_texts(const std::string& mine) override {
    auto& text = layout_.area(rank_).text;
    text[mine.copy(text.data(), kMaxText)] = '\0';
    wait_for_all();
    std::vector<std::string> texts;
    for (int rank = 0; rank < world_size_; ++rank)
      texts.emplace_back(layout_.area(rank).text.data());
    wait_for_all();
    return texts;
  }

  void reduce(std::span<const FlatTensor> tensors, ReduceOp op) override {
    if (tensors.empty()) return;
    if (!tensors.front().parts.empty()) return reduce_in_place(tensors, op);
    const std::vector<Chunk> chunks = cut_into_chunks(tensors, SharedLayout::kChunkBytes);
    if (chunks.size() == 1 && bytes_of(chunks[0]) <= kSmallBytes)
      return reduce_small(chunks[0], tensors, op);
    reduce_chunks(chunks, tensors, op);
  }

  void broadcast(std::span<const FlatTensor> tensors, int root) override {
    if (tensors.empty()) return;
    if (!tensors.front().parts.empty()) return broadcast_in_place(tensors, root);
    for (const Chunk& chunk : cut_into_chunks(tensors, SharedLayout::kChunkBytes)) {
      ++chunks_staged_;
      if (rank_ == root) {
        copy_in(chunk, tensors, staging(root, chunk));
        bytes_sent_ += bytes_of(chunk);
      }
      wait_for_all();
      if (rank_ != root) copy_out(chunk, tensors, staging(root, chunk));
    }
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& mine,
                                     std::span<const CallHeader> headers) override {
    const std::vector<at::Tensor> all = allocate_parts(mine, headers);
    const std::int64_t most = largest_nbytes(all);
    for (std::int64_t at = 0; at < most; at += SharedLayout::kChunkBytes) {
      ++chunks_staged_;
      base::copy_bytes(layout_.staging(rank_, chunks_staged_), data_of(mine) + at,
                       piece_of(mine, at));
      wait_for_all();
      for (int rank = 0; rank < world_size_; ++rank)
        base::copy_bytes(data_of(all[rank]) + at, layout_.staging(rank, chunks_staged_),
                         piece_of(all[rank], at));
    }
    bytes_sent_ += static_cast<std::int64_t>(mine.nbytes());
    return all;
  }

  LinkBuffer make_buffer(std::int64_t bytes) override;

  void give_up(const Error& reason) noexcept override { barrier_.give_up(reason); }

 private:
  void wait_for_all() { barrier_.arrive_and_wait(what_); }

  /// Polling helps only if there is a core for every process.
  void choose_spin() {
    sched_getaffinity(0, sizeof(cpu_set_t), &layout_.area(rank_).cores);
    what_ = "make_process_communicator";
    wait_for_all();
    cpu_set_t all = layout_.area(0).cores;
    for (int rank = 1; rank < world_size_; ++rank) CPU_OR(&all, &all, &layout_.area(rank).cores);
    if (CPU_COUNT(&all) >= world_size_) barrier_.set_spin(kSpin);
  }

  static std::int64_t bytes_of(const Chunk& chunk) {
    return chunk.numel * static_cast<std::int64_t>(c10::elementSize(chunk.dtype));
  }
  static at::Tensor view_of(std::byte* data, const Chunk& chunk) {
    return at::from_blob(data, {chunk.numel}, at::TensorOptions(chunk.dtype));
  }
  at::Tensor staging(int rank, const Chunk& chunk) const {
    return view_of(layout_.staging(rank, chunks_staged_), chunk);
  }
  std::vector<at::Tensor> staged_parts(const Chunk& chunk, std::uint64_t chunk_number) const {
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < world_size_; ++rank)
      parts.push_back(view_of(layout_.staging(rank, chunk_number), chunk));
    return parts;
  }
  Range shard_of(std::int64_t numel) const {
    return {numel * rank_ / world_size_, numel * (rank_ + 1) / world_size_};
  }

  static std::byte* data_of(const at::Tensor& tensor) {
    return static_cast<std::byte*>(tensor.mutable_data_ptr());
  }
  /// How much of `tensor` is in the chunk that begins at byte `at`.
  static std::size_t piece_of(const at::Tensor& tensor, std::int64_t at) {
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(bytes - at, 0, SharedLayout::kChunkBytes));
  }

  void round(const at::Tensor& values, bool narrow) const {
    if (narrow) round_to_wire(values, wire_);
  }

  /// All values are in memory that all ranks can access: each rank adds its shard and writes the
  /// sums to all.
  void reduce_in_place(std::span<const FlatTensor> tensors, ReduceOp op) {
    const bool any_narrow =
        std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.narrow; });
    if (any_narrow) {
      for (const FlatTensor& tensor : tensors) round(tensor.values, tensor.narrow);
      wait_for_all();
    }
    for (const FlatTensor& tensor : tensors) reduce_shard(tensor, op);
    wait_for_all();
  }

  void reduce_shard(const FlatTensor& tensor, ReduceOp op) {
    const Range shard = shard_of(tensor.values.numel());
    const auto size = static_cast<std::int64_t>(tensor.values.element_size());
    const at::Tensor sums =
        at::empty({std::min(kBlock, shard.end - shard.begin)}, tensor.values.options());
    for (std::int64_t at = shard.begin; at < shard.end; at += kBlock) {
      const std::int64_t stop = std::min(at + kBlock, shard.end);
      const at::Tensor block = sums.narrow(0, 0, stop - at);
      combine_range(tensor.parts, op, at, stop, block);
      round(block, tensor.narrow);
      for (const at::Tensor& part : tensor.parts)
        base::copy_bytes(data_of(part) + at * size, data_of(block),
                         static_cast<std::size_t>((stop - at) * size));
    }
    bytes_sent_ += sent(tensor.values.numel(), size);
  }

  /// The bytes that a transport would send: the other ranks' shards of its values, and its sums to
  /// each rank.
  std::int64_t sent(std::int64_t numel, std::int64_t element_size) const {
    const Range shard = shard_of(numel);
    const std::int64_t own = shard.end - shard.begin;
    return (numel - own + own * (world_size_ - 1)) * element_size;
  }

  void reduce_small(const Chunk& chunk, std::span<const FlatTensor> tensors, ReduceOp op) {
    ++chunks_staged_;
    const at::Tensor mine = staging(rank_, chunk);
    copy_in(chunk, tensors, mine);
    round(mine, chunk.narrow);
    wait_for_all();
    const at::Tensor sums = at::empty({chunk.numel}, mine.options());
    combine_range(staged_parts(chunk, chunks_staged_), op, 0, chunk.numel, sums);
    round(sums, chunk.narrow);
    copy_out(chunk, tensors, sums);
    bytes_sent_ += bytes_of(chunk) * (world_size_ - 1);
  }

  /// Pipelines chunks through staging. Between two barriers a rank copies one chunk in, adds its
  /// shard of the previous chunk, and copies out the sums of the chunk before that.
  void reduce_chunks(const std::vector<Chunk>& chunks, std::span<const FlatTensor> tensors,
                     ReduceOp op) {
    const std::size_t count = chunks.size();
    const std::uint64_t first = chunks_staged_ + 1;
    for (std::size_t phase = 0; phase < count + 2; ++phase) {
      if (phase < count) {
        const at::Tensor mine = view_of(layout_.staging(rank_, first + phase), chunks[phase]);
        copy_in(chunks[phase], tensors, mine);
        round(mine, chunks[phase].narrow);
      }
      if (phase >= 1 && phase <= count) add_chunk(chunks[phase - 1], first + phase - 1, op);
      if (phase >= 2) {
        const Chunk& chunk = chunks[phase - 2];
        copy_out(chunk, tensors, view_of(layout_.result(first + phase - 2), chunk));
      }
      if (phase < count + 1) wait_for_all();
    }
    chunks_staged_ += count;
  }

  void add_chunk(const Chunk& chunk, std::uint64_t chunk_number, ReduceOp op) {
    const std::vector<at::Tensor> parts = staged_parts(chunk, chunk_number);
    const at::Tensor sums = view_of(layout_.result(chunk_number), chunk);
    const Range shard = shard_of(chunk.numel);
    for (std::int64_t at = shard.begin; at < shard.end; at += kBlock) {
      const std::int64_t stop = std::min(at + kBlock, shard.end);
      const at::Tensor block = sums.narrow(0, at, stop - at);
      combine_range(parts, op, at, stop, block);
      round(block, chunk.narrow);
    }
    bytes_sent_ += sent(chunk.numel, static_cast<std::int64_t>(c10::elementSize(chunk.dtype)));
  }

  void broadcast_in_place(std::span<const FlatTensor> tensors, int root) {
    for (const FlatTensor& tensor : tensors) {
      if (rank_ == root) {
        bytes_sent_ += static_cast<std::int64_t>(tensor.values.nbytes());
      } else {
        base::copy_bytes(data_of(tensor.values), data_of(tensor.parts[root]),
                         tensor.values.nbytes());
      }
    }
    wait_for_all();
  }

  const std::shared_ptr<cluster::Membership> membership_;
  const int rank_;
  const int world_size_;
  const WireType wire_;
  const SharedLayout layout_;
  SharedBarrier barrier_;
  std::vector<CallHeader> headers_;
  std::string_view what_;
  std::uint64_t calls_ = 0;
  /// Counts chunks that were staged: alternate chunks use alternate staging areas.
  std::uint64_t chunks_staged_ = 0;
  std::int64_t bytes_sent_ = 0;
};

/// The error of `attempt`; empty: none.
template <class Attempt>
std::string failure_of(const Attempt& attempt) {
  try {
    attempt();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// A buffer has one part per rank, each on separate pages. Rank 0 creates the segment, and closes
/// its descriptor when all have mapped it.
LinkBuffer SharedMemoryLink::make_buffer(std::int64_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t part = (static_cast<std::size_t>(bytes) + kPage - 1) & ~(kPage - 1);
  const auto segment = std::make_shared<SharedSegment>();
  RankArea& maker = layout_.area(0);
  std::string failure = failure_of([&] {
    if (rank_ != 0) return;
    maker.buffer = {};
    *segment = SharedSegment::make(part * world_size_);
    maker.buffer = segment->handle();
  });
  wait_for_all();
  if (rank_ != 0 && maker.buffer.descriptor >= 0) {
    failure = failure_of([&] { *segment = SharedSegment::open(maker.buffer, part * world_size_); });
  }
  const std::vector<std::string> failures = exchange_texts(failure);
  for (int rank = 0; rank < world_size_; ++rank) {
    if (failures[rank].empty()) continue;
    throw Error(ErrorCode::kResourceExhausted,
                base::str_cat("make_buffer: rank ", rank, ": ", failures[rank]));
  }
  segment->close_descriptor();
  LinkBuffer buffer{.memory = segment, .own = segment->data() + part * rank_};
  for (int rank = 0; rank < world_size_; ++rank)
    buffer.parts.push_back(segment->data() + part * rank);
  return buffer;
}

}  // namespace

std::unique_ptr<ProcessLink> make_shared_memory_link(
    std::shared_ptr<cluster::Membership> membership, const std::string& name,
    const CommunicationOptions& options) {
  SharedLayout layout = SharedLayout::create_or_map(*membership, name, options.timeout);
  return std::make_unique<SharedMemoryLink>(std::move(membership), std::move(layout), options);
}

}  // namespace brigade::comm
