#include "brigade/comm/shared_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

#include "brigade/base/copy_bytes.h"
#include "brigade/base/strings.h"
#include "brigade/comm/chunks.h"
#include "brigade/comm/reduce_kernel.h"
#include "brigade/comm/shared_layout.h"
#include "brigade/comm/wire.h"

namespace brigade::comm {

namespace {

/// As much as stays in a core's own cache beside the parts that are added up.
constexpr std::int64_t kBlock = 32 * 1024;
/// Up to here every rank adds up everything by itself: one meeting less is worth more.
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
        meeting_(layout_.places(), layout_.failure(), membership_,
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
    meet();
    for (int rank = 0; rank < world_size_; ++rank)
      headers_[rank] = layout_.area(rank).headers[parity];
    return headers_;
  }

  std::vector<std::string> exchange_texts(const std::string& mine) override {
    auto& text = layout_.area(rank_).text;
    text[mine.copy(text.data(), kMaxText)] = '\0';
    meet();
    std::vector<std::string> texts;
    for (int rank = 0; rank < world_size_; ++rank)
      texts.emplace_back(layout_.area(rank).text.data());
    meet();
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
      ++turn_;
      if (rank_ == root) {
        copy_in(chunk, tensors, staging(root, chunk));
        bytes_sent_ += bytes_of(chunk);
      }
      meet();
      if (rank_ != root) copy_out(chunk, tensors, staging(root, chunk));
    }
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& mine,
                                     std::span<const CallHeader> headers) override {
    const std::vector<at::Tensor> all = room_for_parts(mine, headers);
    const std::int64_t most = most_bytes(all);
    for (std::int64_t at = 0; at < most; at += SharedLayout::kChunkBytes) {
      ++turn_;
      base::copy_bytes(layout_.staging(rank_, turn_), data_of(mine) + at, piece_of(mine, at));
      meet();
      for (int rank = 0; rank < world_size_; ++rank)
        base::copy_bytes(data_of(all[rank]) + at, layout_.staging(rank, turn_),
                         piece_of(all[rank], at));
    }
    bytes_sent_ += static_cast<std::int64_t>(mine.nbytes());
    return all;
  }

  LinkBuffer make_buffer(std::int64_t bytes) override;

  void give_up(const Error& reason) noexcept override { meeting_.give_up(reason); }

 private:
  void meet() { meeting_.meet(what_); }

  /// Polling helps only where every process has a core to itself.
  void choose_spin() {
    sched_getaffinity(0, sizeof(cpu_set_t), &layout_.area(rank_).cores);
    what_ = "make_process_communicator";
    meet();
    cpu_set_t all = layout_.area(0).cores;
    for (int rank = 1; rank < world_size_; ++rank) CPU_OR(&all, &all, &layout_.area(rank).cores);
    if (CPU_COUNT(&all) >= world_size_) meeting_.set_spin(kSpin);
  }

  static std::int64_t bytes_of(const Chunk& chunk) {
    return chunk.numel * static_cast<std::int64_t>(c10::elementSize(chunk.dtype));
  }
  static at::Tensor view_of(std::byte* data, const Chunk& chunk) {
    return at::from_blob(data, {chunk.numel}, at::TensorOptions(chunk.dtype));
  }
  at::Tensor staging(int rank, const Chunk& chunk) const {
    return view_of(layout_.staging(rank, turn_), chunk);
  }
  std::vector<at::Tensor> everybodys(const Chunk& chunk, std::uint64_t turn) const {
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < world_size_; ++rank)
      parts.push_back(view_of(layout_.staging(rank, turn), chunk));
    return parts;
  }
  Range share_of(std::int64_t numel) const {
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

  /// All values lie where all ranks reach them: each adds up its share and writes it to everybody.
  void reduce_in_place(std::span<const FlatTensor> tensors, ReduceOp op) {
    const bool any_narrow =
        std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.narrow; });
    if (any_narrow) {
      for (const FlatTensor& tensor : tensors) round(tensor.values, tensor.narrow);
      meet();
    }
    for (const FlatTensor& tensor : tensors) reduce_share(tensor, op);
    meet();
  }

  void reduce_share(const FlatTensor& tensor, ReduceOp op) {
    const Range share = share_of(tensor.values.numel());
    const auto size = static_cast<std::int64_t>(tensor.values.element_size());
    const at::Tensor sums =
        at::empty({std::min(kBlock, share.end - share.begin)}, tensor.values.options());
    for (std::int64_t at = share.begin; at < share.end; at += kBlock) {
      const std::int64_t stop = std::min(at + kBlock, share.end);
      const at::Tensor block = sums.narrow(0, 0, stop - at);
      combine_range(tensor.parts, op, at, stop, block);
      round(block, tensor.narrow);
      for (const at::Tensor& part : tensor.parts)
        base::copy_bytes(data_of(part) + at * size, data_of(block),
                         static_cast<std::size_t>((stop - at) * size));
    }
    bytes_sent_ += sent(tensor.values.numel(), size);
  }

  /// What a transport would send: the other ranks' shares of its part, and its sums to each.
  std::int64_t sent(std::int64_t numel, std::int64_t element_size) const {
    const Range share = share_of(numel);
    const std::int64_t own = share.end - share.begin;
    return (numel - own + own * (world_size_ - 1)) * element_size;
  }

  void reduce_small(const Chunk& chunk, std::span<const FlatTensor> tensors, ReduceOp op) {
    ++turn_;
    const at::Tensor mine = staging(rank_, chunk);
    copy_in(chunk, tensors, mine);
    round(mine, chunk.narrow);
    meet();
    const at::Tensor sums = at::empty({chunk.numel}, mine.options());
    combine_range(everybodys(chunk, turn_), op, 0, chunk.numel, sums);
    round(sums, chunk.narrow);
    copy_out(chunk, tensors, sums);
    bytes_sent_ += bytes_of(chunk) * (world_size_ - 1);
  }

  /// Chunk by chunk through staging. Between two meetings a rank brings one chunk in, adds up its
  /// share of the one before, and takes out the one before that.
  void reduce_chunks(const std::vector<Chunk>& chunks, std::span<const FlatTensor> tensors,
                     ReduceOp op) {
    const std::size_t count = chunks.size();
    const std::uint64_t first = turn_ + 1;
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
      if (phase < count + 1) meet();
    }
    turn_ += count;
  }

  void add_chunk(const Chunk& chunk, std::uint64_t turn, ReduceOp op) {
    const std::vector<at::Tensor> parts = everybodys(chunk, turn);
    const at::Tensor sums = view_of(layout_.result(turn), chunk);
    const Range share = share_of(chunk.numel);
    for (std::int64_t at = share.begin; at < share.end; at += kBlock) {
      const std::int64_t stop = std::min(at + kBlock, share.end);
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
    meet();
  }

  const std::shared_ptr<cluster::Membership> membership_;
  const int rank_;
  const int world_size_;
  const WireType wire_;
  const SharedLayout layout_;
  SharedMeeting meeting_;
  std::vector<CallHeader> headers_;
  std::string_view what_;
  std::uint64_t calls_ = 0;
  /// Counts chunks that went through staging: alternate ones use alternate places.
  std::uint64_t turn_ = 0;
  std::int64_t bytes_sent_ = 0;
};

/// What the attempt failed with; empty: it did not.
template <class Attempt>
std::string failure_of(const Attempt& attempt) {
  try {
    attempt();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// A buffer has one part a rank, each on pages of its own. Rank 0 makes the segment, and closes its
/// descriptor when all have mapped it.
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
  meet();
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
  SharedLayout layout = SharedLayout::meet(*membership, name, options.timeout);
  return std::make_unique<SharedMemoryLink>(std::move(membership), std::move(layout), options);
}

}  // namespace brigade::comm
