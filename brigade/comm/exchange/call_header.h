#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "brigade/comm/communicator.h"
#include "brigade/comm/piggyback.h"
#include "brigade/comm/step_progress.h"

namespace brigade::comm {

/// What each process sends to the others at the start of a collective, so that calls that do not
/// match are errors and not wrong sums or hangs. It is sent as raw memory: all members of a job run
/// the same program on the same kind of machine.
///
/// Thread-safety: a value.
struct CallHeader {
  static constexpr int kMaxDimensions = 8;

  Collective kind = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  std::int32_t root = 0;
  std::int32_t tensors = 0;
  /// The number of dimensions of the tensor of a call that gathers: shapes may differ.
  std::int32_t dimensions = 0;
  std::array<std::int64_t, kMaxDimensions> sizes = {};
  /// Of dtypes and shapes: equal if they are equal.
  std::uint64_t digest = 0;
  /// Of the tensors' locations in memory that all processes share; 0: they are not in it.
  std::uint64_t buffer_digest = 0;
  /// Of reductions: of the parts that each rank contributes (ReductionBlocks).
  std::uint64_t blocks_digest = 0;
  /// The step of the call, and its purpose.
  CallStamp stamp = {};
  PiggybackStamps piggyback = {};

  /// The call's name, for messages.
  std::string_view name() const { return CollectiveCall{.kind = kind, .op = op}.name(); }
  /// Whether both are the same call, perhaps with other tensors.
  bool same_call(const CallHeader& other) const {
    return kind == other.kind && op == other.op && root == other.root;
  }
};

/// The header of a call. Throws kInvalidArgument if it gathers a tensor of more than
/// kMaxDimensions.
CallHeader header_of(const CollectiveCall& call);
/// Returns `digest` extended by one more value.
std::uint64_t mix(std::uint64_t digest, std::uint64_t value);

/// One line per tensor, cut off at `limit` characters.
std::string shapes_of(std::span<const at::Tensor> tensors, std::size_t limit);

}  // namespace brigade::comm
