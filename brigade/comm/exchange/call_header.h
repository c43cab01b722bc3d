#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/comm/communicator.h"
#include "brigade/comm/step_progress.h"

namespace brigade::comm {

/// A collective call between processes, as a number that fits on the wire.
enum class Collective : std::int32_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kBroadcast,
  kAllGather,
  kBarrier,
  kMakeBuffer,
};

/// "all_reduce(sum)", "broadcast", ..., for messages.
std::string_view to_string(Collective call);
Collective reduction(ReduceOp op);

/// What a process tells the others at the start of each collective, so that calls that do not match
/// become errors instead of wrong sums or hangs. Sent as it lies in memory: all members of a job
/// run the same program on the same kind of machine.
///
/// Thread-safety: a value.
struct CallHeader {
  static constexpr int kMaxDimensions = 8;

  Collective call = Collective::kBarrier;
  std::int32_t root = 0;
  std::int32_t tensors = 0;
  /// Of the tensor of an `all_gather`, whose shapes may differ.
  std::int32_t dimensions = 0;
  std::array<std::int64_t, kMaxDimensions> sizes = {};
  /// Of dtypes and shapes: equal where they are equal.
  std::uint64_t digest = 0;
  /// Of where the tensors lie in memory that all processes share; 0: not there.
  std::uint64_t buffer_digest = 0;
  /// In which step, and for what.
  CallStamp stamp = {};
};

/// The header of a call with these tensors, whose dtypes and shapes all must share.
CallHeader header_of(Collective call, std::span<const at::Tensor> tensors, int root = 0);
/// The same for an `all_gather`. Throws kInvalidArgument for more than kMaxDimensions.
CallHeader gather_header(const at::Tensor& tensor);
/// Carries `value` on from one more value of a digest.
std::uint64_t mix(std::uint64_t digest, std::uint64_t value);

/// Dtype and shape as people read them: "Float[2, 3]".
std::string shape_of(const at::Tensor& tensor);
/// One line a tensor, cut off at `limit` characters.
std::string shapes_of(std::span<const at::Tensor> tensors, std::size_t limit);

/// Everybody's stamp, by rank.
std::vector<CallStamp> stamps_of(std::span<const CallHeader> headers);
/// The first rank that is in another step than rank `mine`, or in an exchange for something else.
std::optional<int> first_in_another_step(std::span<const CallHeader> headers, int mine);
/// The error that names both.
StepMismatch step_mismatch(std::span<const CallHeader> headers, int mine, int other);
/// The first rank whose header does not go with that of rank `mine`.
std::optional<int> first_mismatch(std::span<const CallHeader> headers, int mine);
/// What is to be said about it; `shapes[rank]` is what `shapes_of` gave there.
std::string describe_mismatch(std::span<const CallHeader> headers, int mine, int other,
                              std::span<const std::string> shapes);

}  // namespace brigade::comm
