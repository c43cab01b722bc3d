#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "brigade/cluster/membership.h"
#include "brigade/comm/shared_memory/shared_barrier.h"
#include "brigade/comm/shared_memory/shared_segment.h"

namespace brigade::comm {

/// What one rank publishes to the others, in shared memory.
struct alignas(64) RankArea {
  SegmentHandle buffer;  ///< the buffer that this rank creates
  cpu_set_t cores;       ///< the cores that it may run on
};

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
                                    std::chrono::milliseconds timeout);

  int world_size() const { return world_size_; }
  BarrierFailure& failure() const;
  std::span<BarrierSlot> slots() const;
  RankArea& area(int rank) const;
  std::byte* staging(int rank, std::uint64_t chunk_number) const;
  std::byte* result(std::uint64_t chunk_number) const;

 private:
  SharedLayout(SharedSegment segment, int world_size)
      : segment_(std::move(segment)), world_size_(world_size) {}

  SharedSegment segment_;
  int world_size_;
};

}  // namespace brigade::comm
