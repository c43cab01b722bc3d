#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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

  void begin_step(std::int64_t step) const;
  void end_step(std::int64_t step, const std::optional<std::string>& failure) const;
  void abort(const std::string& reason) const;
  std::int64_t bytes_sent() const;
};

/// Makes this process's channels; every worker calls it. Worker w computes the stages before those
/// of worker w + 1.
StageChannels make_stage_channels(const WorkerGroup& workers, std::chrono::milliseconds timeout);

}  // namespace brigade::distribute
