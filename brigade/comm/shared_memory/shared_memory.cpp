#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <sched.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "brigade/base/copy_bytes.h"
#include "brigade/base/error.h"
#include "brigade/base/shared_segment.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/local/chunks.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/process_link.h"
#include "brigade/comm/shared_memory/shared_barrier.h"

namespace brigade::comm {

namespace {

using base::SegmentHandle;
using base::SharedSegment;

/// So that a block stays in a core's own cache together with the parts that are added.
constexpr std::int64_t kBlock = 32 * 1024;
/// Up to this size every rank adds everything itself, which saves one barrier.
constexpr std::int64_t kSmallBytes = 16 * 1024;
constexpr std::chrono::microseconds kSpin{500};

/// What one rank publishes to the others, in shared memory.
struct alignas(64) RankArea {
  SegmentHandle buffer;  ///< the buffer that this rank creates
  cpu_set_t cores;       ///< the cores that it may run on
};

/// The segment's handle as rank 0 writes it: "<pid> <descriptor> <nonce> <nonce>"; empty: it could
/// not be created.
std::string to_text(const SegmentHandle& handle) {
  return base::str_cat(handle.pid, " ", handle.descriptor, " ", handle.nonce[0], " ",
                       handle.nonce[1]);
}

SegmentHandle handle_of(const std::string& text) {
  SegmentHandle handle;
  std::istringstream words(text);
  words >> handle.pid >> handle.descriptor >> handle.nonce[0] >> handle.nonce[1];
  if (words.fail()) throw Error(ErrorCode::kUnavailable, "rank 0 could not create shared memory.");
  return handle;
}

SharedSegment make_or_open(cluster::Membership& membership, const std::string& key,
                           std::size_t bytes, std::chrono::milliseconds timeout) {
  if (membership.self().rank != 0)
    return SharedSegment::open(handle_of(membership.get(key, timeout)), bytes);
  try {
    SharedSegment segment = SharedSegment::make(bytes);
    membership.set(key, to_text(segment.handle()));
    return segment;
  } catch (const Error&) {
    membership.set(key, "");
    throw;
  }
}

/// The memory layout of the shared segment of one group of processes:
///   failure | slots[rank] | areas[rank] | staging[rank][2] | results[2]
/// Each staging and result area holds one chunk. Chunks alternate between the two of a rank: it may
/// be one chunk ahead of those that still read.
///
/// Thread-safety: callers order their accesses with the SharedBarrier in this segment.
class SharedLayout {
 public:
  /// Values outside shared buffers are copied through staging areas of this size.
  static constexpr std::int64_t kChunkBytes = 1 << 20;

  /// Creates the segment (rank 0) or maps it (others), and returns when all members have. Throws
  /// the same error on all.
  static SharedLayout create_or_map(cluster::Membership& membership, const std::string& name,
                                    std::chrono::milliseconds timeout) {
    const int world_size = static_cast<int>(membership.members().size());
    const auto key_of = [&](int rank) { return base::str_cat(name, "/mapped/", rank); };
    SharedSegment segment;
    std::string failure;
    try {
      segment = make_or_open(membership, name + "/segment", total_bytes(world_size), timeout);
    } catch (const Error& error) {
      failure = error.what();
    }
    // All members read what all report, so all throw if one of them could not map it.
    membership.set(key_of(membership.self().rank), failure);
    for (const cluster::Member& member : membership.members()) {
      const std::string text = membership.get(key_of(member.rank), timeout);
      if (!text.empty()) throw Error(ErrorCode::kUnavailable, member, ": ", text);
    }
    segment.close_descriptor();
    return SharedLayout(std::move(segment), world_size);
  }

  int world_size() const { return world_size_; }
  BarrierFailure& failure() const { return *reinterpret_cast<BarrierFailure*>(segment_.data()); }
  std::span<BarrierSlot> slots() const {
    return {reinterpret_cast<BarrierSlot*>(segment_.data() + kSlots),
            static_cast<std::size_t>(world_size_)};
  }
  RankArea& area(int rank) const {
    return reinterpret_cast<RankArea*>(segment_.data() + areas_offset(world_size_))[rank];
  }
  std::byte* staging(int rank, std::uint64_t chunk_number) const {
    return segment_.data() + chunks_offset(world_size_) +
           (static_cast<std::size_t>(rank) * 2 + chunk_number % 2) * kChunkBytes;
  }
  std::byte* result(std::uint64_t chunk_number) const { return staging(world_size_, chunk_number); }

 private:
  static constexpr std::size_t kSlots = sizeof(BarrierFailure);

  SharedLayout(SharedSegment segment, int world_size)
      : segment_(std::move(segment)), world_size_(world_size) {}

  static std::size_t areas_offset(int world_size) {
    return kSlots + world_size * sizeof(BarrierSlot);
  }
  static std::size_t chunks_offset(int world_size) {
    constexpr std::size_t kPage = 4096;
    return (areas_offset(world_size) + world_size * sizeof(RankArea) + kPage - 1) & ~(kPage - 1);
  }
  static std::size_t total_bytes(int world_size) {
    return chunks_offset(world_size) + 2 * (world_size + 1) * static_cast<std::size_t>(kChunkBytes);
  }

  SharedSegment segment_;
  int world_size_;
};

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class SharedMemoryLink final : public ProcessLink {
 public:
  SharedMemoryLink(std::shared_ptr<cluster::Membership> membership, SharedLayout layout,
                   const CommunicationOptions& options)
      : ProcessLink(membership->self().rank, layout.world_size(), SharedLayout::kChunkBytes),
        wire_(options.wire),
        layout_(std::move(layout)),
        barrier_(layout_.slots(), layout_.failure(), std::move(membership),
                 {.timeout = options.timeout, .slow_after = options.slow_after}) {
    choose_spin();
  }

  Transport transport() const override { return Transport::kSharedMemory; }

  LinkBuffer make_buffer(std::int64_t bytes) override;

  void give_up(const Error& reason) noexcept override { barrier_.give_up(reason); }

 private:
  void begin_call(std::string_view what) override { what_ = what; }

  GatheredBytes gather(std::span<const std::byte> mine, std::int64_t) override {
    ++chunks_staged_;
    base::copy_bytes(layout_.staging(rank(), chunks_staged_), mine.data(), mine.size());
    wait_for_all();
    const std::byte* const first = layout_.staging(0, chunks_staged_);
    return {.first = first,
            .row = world_size() > 1 ? layout_.staging(1, chunks_staged_) - first : 0,
            .sent = static_cast<std::int64_t>(mine.size())};
  }

  void reduce(std::span<const FlatTensor> tensors, ReduceOp op,
              const ReductionBlocks& blocks) override {
    if (tensors.empty()) return;
    if (!tensors.front().shared_parts.empty()) return reduce_in_place(tensors, op, blocks);
    // The chunks of all of a rank's parts are staged together.
    const std::vector<Chunk> chunks = cut_into_chunks(
        tensors, SharedLayout::kChunkBytes / static_cast<std::int64_t>(blocks.most_parts()));
    if (chunks.size() == 1 && bytes_of(chunks[0]) <= kSmallBytes)
      return reduce_small(chunks[0], tensors, op, blocks);
    reduce_chunks(chunks, tensors, op, blocks);
  }

  void broadcast(std::span<const FlatTensor> tensors, int root) override {
    if (tensors.empty()) return;
    if (!tensors.front().shared.empty()) return broadcast_in_place(tensors, root);
    for (const Chunk& chunk : cut_into_chunks(tensors, SharedLayout::kChunkBytes)) {
      ++chunks_staged_;
      if (rank() == root) {
        copy_in(chunk, tensors, staging(root, chunk));
        count_sent(bytes_of(chunk));
      }
      wait_for_all();
      if (rank() != root) copy_out(chunk, tensors, staging(root, chunk));
    }
  }

  void wait_for_all() { barrier_.arrive_and_wait(what_); }

  /// Polling helps only if there is a core for every process.
  void choose_spin() {
    sched_getaffinity(0, sizeof(cpu_set_t), &layout_.area(rank()).cores);
    what_ = "make_process_communicator";
    wait_for_all();
    cpu_set_t all = layout_.area(0).cores;
    for (int rank = 1; rank < world_size(); ++rank) CPU_OR(&all, &all, &layout_.area(rank).cores);
    if (CPU_COUNT(&all) >= world_size()) barrier_.set_spin(kSpin);
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
  /// A rank's part number `part` of a chunk: its parts are staged one after another.
  at::Tensor staged_part(int rank, std::size_t part, const Chunk& chunk,
                         std::uint64_t chunk_number) const {
    return view_of(
        layout_.staging(rank, chunk_number) + static_cast<std::int64_t>(part) * bytes_of(chunk),
        chunk);
  }
  std::vector<at::Tensor> staged_parts(const Chunk& chunk, std::uint64_t chunk_number,
                                       const ReductionBlocks& blocks) const {
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < world_size(); ++rank) {
      for (std::size_t part = 0; part < blocks.num_parts(rank); ++part)
        parts.push_back(staged_part(rank, part, chunk, chunk_number));
    }
    return parts;
  }
  void stage_own(const Chunk& chunk, std::uint64_t chunk_number,
                 std::span<const FlatTensor> tensors, const ReductionBlocks& blocks) const {
    for (std::size_t part = 0; part < blocks.num_parts(rank()); ++part) {
      const at::Tensor mine = staged_part(rank(), part, chunk, chunk_number);
      copy_in(chunk, tensors, mine, part);
      round(mine, chunk.narrow);
    }
  }
  Range shard_of(std::int64_t numel) const {
    return {numel * rank() / world_size(), numel * (rank() + 1) / world_size()};
  }

  void round(const at::Tensor& values, bool narrow) const {
    if (narrow) round_to_wire(values, wire_);
  }

  /// All values are in memory that all ranks can access: each rank adds its shard and writes the
  /// sums to all.
  void reduce_in_place(std::span<const FlatTensor> tensors, ReduceOp op,
                       const ReductionBlocks& blocks) {
    const bool any_narrow =
        std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.narrow; });
    if (any_narrow) {
      for (const FlatTensor& tensor : tensors) {
        for (std::size_t part = 0; part < blocks.num_parts(rank()); ++part)
          round(tensor.part(part), tensor.narrow);
      }
      wait_for_all();
    }
    for (const FlatTensor& tensor : tensors) reduce_shard(tensor, op, blocks);
    wait_for_all();
  }

  void reduce_shard(const FlatTensor& tensor, ReduceOp op, const ReductionBlocks& blocks) {
    const Range shard = shard_of(tensor.values.numel());
    const auto size = static_cast<std::int64_t>(tensor.values.element_size());
    const at::Tensor sums =
        at::empty({std::min(kBlock, shard.end - shard.begin)}, tensor.values.options());
    for (std::int64_t at = shard.begin; at < shard.end; at += kBlock) {
      const std::int64_t stop = std::min(at + kBlock, shard.end);
      const at::Tensor block = sums.narrow(0, 0, stop - at);
      combine_range(tensor.shared_parts, blocks.tree(), op, at, stop, block);
      round(block, tensor.narrow);
      for (const at::Tensor& values : tensor.shared)
        base::copy_bytes(data_of(values) + at * size, data_of(block),
                         static_cast<std::size_t>((stop - at) * size));
    }
    count_sent(sent(tensor.values.numel(), size, blocks));
  }

  /// The bytes that a transport would send: the other ranks' shards of its parts, and its sums to
  /// each rank.
  std::int64_t sent(std::int64_t numel, std::int64_t element_size,
                    const ReductionBlocks& blocks) const {
    const Range shard = shard_of(numel);
    const std::int64_t own = shard.end - shard.begin;
    const auto parts = static_cast<std::int64_t>(blocks.num_parts(rank()));
    return ((numel - own) * parts + own * (world_size() - 1)) * element_size;
  }

  void reduce_small(const Chunk& chunk, std::span<const FlatTensor> tensors, ReduceOp op,
                    const ReductionBlocks& blocks) {
    ++chunks_staged_;
    stage_own(chunk, chunks_staged_, tensors, blocks);
    wait_for_all();
    const at::Tensor sums = at::empty({chunk.numel}, at::TensorOptions(chunk.dtype));
    combine_range(staged_parts(chunk, chunks_staged_, blocks), blocks.tree(), op, 0, chunk.numel,
                  sums);
    round(sums, chunk.narrow);
    copy_out(chunk, tensors, sums);
    const auto parts = static_cast<std::int64_t>(blocks.num_parts(rank()));
    count_sent(parts * bytes_of(chunk) * (world_size() - 1));
  }

  /// Pipelines chunks through staging. Between two barriers a rank copies one chunk in, adds its
  /// shard of the previous chunk, and copies out the sums of the chunk before that.
  void reduce_chunks(const std::vector<Chunk>& chunks, std::span<const FlatTensor> tensors,
                     ReduceOp op, const ReductionBlocks& blocks) {
    const std::size_t count = chunks.size();
    const std::uint64_t first = chunks_staged_ + 1;
    for (std::size_t phase = 0; phase < count + 2; ++phase) {
      if (phase < count) stage_own(chunks[phase], first + phase, tensors, blocks);
      if (phase >= 1 && phase <= count) add_chunk(chunks[phase - 1], first + phase - 1, op, blocks);
      if (phase >= 2) {
        const Chunk& chunk = chunks[phase - 2];
        copy_out(chunk, tensors, view_of(layout_.result(first + phase - 2), chunk));
      }
      if (phase < count + 1) wait_for_all();
    }
    chunks_staged_ += count;
  }

  void add_chunk(const Chunk& chunk, std::uint64_t chunk_number, ReduceOp op,
                 const ReductionBlocks& blocks) {
    const std::vector<at::Tensor> parts = staged_parts(chunk, chunk_number, blocks);
    const at::Tensor sums = view_of(layout_.result(chunk_number), chunk);
    const Range shard = shard_of(chunk.numel);
    for (std::int64_t at = shard.begin; at < shard.end; at += kBlock) {
      const std::int64_t stop = std::min(at + kBlock, shard.end);
      const at::Tensor block = sums.narrow(0, at, stop - at);
      combine_range(parts, blocks.tree(), op, at, stop, block);
      round(block, chunk.narrow);
    }
    count_sent(sent(chunk.numel, static_cast<std::int64_t>(c10::elementSize(chunk.dtype)), blocks));
  }

  void broadcast_in_place(std::span<const FlatTensor> tensors, int root) {
    for (const FlatTensor& tensor : tensors) {
      if (rank() == root) {
        count_sent(static_cast<std::int64_t>(tensor.values.nbytes()));
      } else {
        base::copy_bytes(data_of(tensor.values), data_of(tensor.shared[root]),
                         tensor.values.nbytes());
      }
    }
    wait_for_all();
  }

  const WireDtype wire_;
  const SharedLayout layout_;
  SharedBarrier barrier_;
  std::string_view what_;
  /// Counts chunks that were staged: alternate chunks use alternate staging areas.
  std::uint64_t chunks_staged_ = 0;
};

/// The error of `attempt`, with its code, as a text for other ranks; empty: none.
template <class Attempt>
std::string failure_of(const Attempt& attempt) {
  try {
    attempt();
    return {};
  } catch (const Error& error) {
    return base::str_cat(static_cast<int>(error.code()), " ", error.what());
  }
}

Error error_of(int rank, const std::string& failure) {
  const std::size_t space = failure.find(' ');
  const auto code = base::parse_int(std::string_view(failure).substr(0, space));
  return Error(static_cast<ErrorCode>(code.value_or(0)),
               base::str_cat("make_buffer: rank ", rank, ": ", failure.substr(space + 1)));
}

/// A buffer has one part per rank, each on separate pages. Rank 0 creates the segment, and closes
/// its descriptor when all have mapped it.
LinkBuffer SharedMemoryLink::make_buffer(std::int64_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t part = (static_cast<std::size_t>(bytes) + kPage - 1) & ~(kPage - 1);
  const auto segment = std::make_shared<SharedSegment>();
  RankArea& maker = layout_.area(0);
  std::string failure = failure_of([&] {
    if (rank() != 0) return;
    maker.buffer = {};
    *segment = SharedSegment::make(part * world_size());
    maker.buffer = segment->handle();
  });
  wait_for_all();
  if (rank() != 0 && maker.buffer.descriptor >= 0) {
    failure =
        failure_of([&] { *segment = SharedSegment::open(maker.buffer, part * world_size()); });
  }
  const std::vector<std::string> failures = exchange_texts(failure);
  for (int rank = 0; rank < world_size(); ++rank) {
    if (failures[rank].empty()) continue;
    const Error error = error_of(rank, failures[rank]);
    // A segment that cannot be opened is that of a process that has ended.
    if (error.code() == ErrorCode::kUnavailable) barrier_.throw_if_member_is_lost("make_buffer");
    throw error;
  }
  segment->close_descriptor();
  LinkBuffer buffer{.memory = segment, .own = segment->data() + part * rank()};
  for (int rank = 0; rank < world_size(); ++rank)
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
