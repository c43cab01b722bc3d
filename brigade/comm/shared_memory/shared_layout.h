#pragma once

#include <sched.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "brigade/cluster/membership.h"
#include "brigade/comm/exchange/call_header.h"
#include "brigade/comm/process_link.h"
#include "brigade/comm/shared_memory/shared_barrier.h"
#include "brigade/comm/shared_memory/shared_segment.h"

namespace brigade::comm {

/// What one rank shows to the others, in shared memory. Headers alternate: a rank may be one call
/// ahead of those that still read.
struct alignas(64) RankArea {
  std::array<CallHeader, 2> headers;
  SegmentHandle buffer;  ///< that it makes
  cpu_set_t cores;       ///< that it may run on
  std::array<char, ProcessLink::kMaxText + 1> text;
};

/// The shared segment of one group of processes, as it lies in memory:
///   failure | places[rank] | areas[rank] | staging[rank][2] | results[2]
/// Staging and results hold one chunk each.
///
/// Thread-safety: as the meeting that it is used under.
class SharedLayout {
 public:
  /// Values of one rank that do not lie in shared buffers go through pieces of this size.
  static constexpr std::int64_t kChunkBytes = 1 << 20;

  /// Makes the segment (rank 0) or maps it, once every member does. Throws the same on all.
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
