#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <span>

namespace brigade::device {

/// Work that was captured once instead of being done, and is done by each `replay`, on the same
/// memory and without the host's part in it: a CUDA graph.
///
/// Thread-safety: one thread at a time.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  /// From now on what is queued on the calling thread's current stream is captured, and, by any
  /// thread, on streams of the device that wait for an event of it; that stream must wait for all
  /// of these before the end. Numbers that are drawn from `random` are new in each replay,
  /// from the generators' states of then.
  virtual void begin(std::span<const at::Generator> random) = 0;
  /// Ends the capture. Throws what the driver says if something could not be captured.
  virtual void end() = 0;
  /// Queues the work on the calling thread's current stream.
  virtual void replay() = 0;
};

/// Makes the graph of a step on this device; null: nothing is captured there.
using GraphFactory = std::function<std::unique_ptr<CapturedGraph>(c10::Device)>;

/// Null without CUDA in the program, and on devices that are not GPUs.
std::unique_ptr<CapturedGraph> make_captured_graph(c10::Device device);

/// Whether the calling thread's current stream of `device` is captured.
bool is_capturing(c10::Device device);

}  // namespace brigade::device
