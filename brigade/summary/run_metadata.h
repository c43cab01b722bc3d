#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace brigade::summary {

/// When one operation of a step ran.
struct NodeTiming {
  std::string node;                    ///< The name of the node in the graph.
  std::string device;                  ///< Where it ran: "/job:worker/task:0/device:GPU:0".
  std::chrono::microseconds begin{0};  ///< Since 1970, or since any moment common to all timings.
  std::chrono::microseconds duration{0};
  std::uint32_t thread = 0;
};

/// The timings of one step as TensorFlow's protobuf message `RunMetadata`, from which TensorBoard
/// colors the graph by time. Devices are sorted by name. Throws kInvalidArgument if a name is not
/// UTF-8 or a duration negative.
std::string encode_run_metadata(std::span<const NodeTiming> timings);

}  // namespace brigade::summary
