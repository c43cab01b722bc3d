#pragma once

#include <cstddef>
#include <vector>

#include "brigade/concurrency/pipeline_schedule.h"
#include "brigade/concurrency/stage_timeline.h"

namespace brigade::concurrency {

/// Records what the devices of a pipeline compute in a step, when, and of how many micro-batches
/// they keep the activations.
///
/// Thread-safety: none; its owner's lock guards it.
class StageRecorder {
 public:
  explicit StageRecorder(int devices) : devices_(static_cast<std::size_t>(devices)) {}

  /// A step begins.
  void reset() { devices_.assign(devices_.size(), Device()); }

  void add_pass(int device, const StagePass& pass) { at(device).passes.push_back(pass); }
  /// Only of a device that has no work now.
  void begin_work(int device, StageWork work, int micro_batch);
  void end_work(int device);
  /// The work that the device has now ends, and other work begins.
  void switch_work(int device, StageWork work, int micro_batch);
  /// The device keeps the activations of one more micro-batch, or of one fewer.
  void keep_activations(int device);
  void release_activations(int device) { --at(device).kept; }

  /// [device]: the passes in the order of `add_pass`.
  StageOrders passes() const;
  /// What has ended.
  StageTimeline timeline() const;
  /// [device]: the most micro-batches whose activations it kept at a time.
  std::vector<int> peak_micro_batches() const;

 private:
  struct Device {
    std::vector<StagePass> passes;
    StageSpan current;  // while it has work
    std::vector<StageSpan> spans;
    int kept = 0, peak = 0;
  };

  Device& at(int device) { return devices_[static_cast<std::size_t>(device)]; }

  std::vector<Device> devices_;
};

}  // namespace brigade::concurrency
