#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/comm/tensor_channel.h"
#include "brigade/distribute/worker_group.h"

namespace brigade::distribute {

/// The channels of a process that computes some stages of a pipeline, with those of the stages
/// before and after its own. Null where there is no such process.
///
/// Thread-safety: a value; see comm::TensorChannel.
struct StageChannels {
  std::unique_ptr<comm::TensorChannel> activations_in;
  std::unique_ptr<comm::TensorChannel> activations_out;
  std::unique_ptr<comm::TensorChannel> gradients_in;
  std::unique_ptr<comm::TensorChannel> gradients_out;
  /// From the last process to all others: what the model returned.
  std::unique_ptr<comm::TensorChannel> results;

  /// Whether a member was found lost. Shared with all threads that receive.
  std::shared_ptr<std::atomic<bool>> has_lost_member = std::make_shared<std::atomic<bool>>(false);

  void begin_step(std::int64_t step) const;
  /// With a failure, the others' receives throw it with the code kAborted, or kUnavailable if it is
  /// that a member was lost.
  void end_step(std::int64_t step, const std::optional<std::string>& failure) const;
  /// As TensorChannel::receive.
  std::vector<at::Tensor> receive(comm::TensorChannel& channel, const comm::MessageKey& key) const;
  void abort(const std::string& reason) const;
  std::int64_t bytes_sent() const;
};

/// Which workers of a pipeline send to one another: each to the next, and in a ring the last also
/// to the first.
enum class StageOrder { kLine, kRing };

/// Makes this process's channels; every worker of the pipeline calls it. Worker w of them computes
/// the stages before those of worker w + 1.
StageChannels make_stage_channels(const WorkerGroup& workers, StageOrder order,
                                  std::chrono::milliseconds timeout);

}  // namespace brigade::distribute
