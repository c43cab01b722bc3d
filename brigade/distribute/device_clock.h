#pragma once

#include <c10/core/Stream.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "brigade/comm/step_clock.h"
#include "brigade/device/event_timeline.h"

namespace brigade::distribute {

/// The phases of one replica's steps as its GPU spends them: the time between points on the
/// replica's stream, of which there is one for each phase that the replica's thread enters. So work
/// counts in the phase in which it was queued, and a phase in which the stream waits for another
/// stream counts that wait. The host does not wait for the GPU.
///
/// Input is the time for which the stream waits for the batch, and, up to the host's own time in
/// input, the time before it for which the stream had nothing to do.
///
/// Thread-safety: one thread at a time: the caller's between steps, the replica's within one.
class DeviceClock final : public comm::PhaseListener {
 public:
  explicit DeviceClock(c10::Stream stream);

  /// A step begins, before the replica's stream waits for the batch. `host_input`: the host's time
  /// in input. A step before it that was not ended by `keep_step` does not count.
  void begin_step(std::chrono::nanoseconds host_input);
  void entered(comm::StepPhase phase) override;
  void end_step();
  void keep_step() { points_in_step_ = 0; }

  /// What the GPU has spent by now since the last call, by phase, of steps that are complete or
  /// under way.
  comm::PerPhase<std::chrono::nanoseconds> take();
  /// The same, after the GPU has completed everything.
  comm::PerPhase<std::chrono::nanoseconds> take_all();
  void clear();

 private:
  /// What the time after a point is.
  struct Interval {
    bool counts = true;
    comm::StepPhase phase = comm::StepPhase::kInput;
    std::chrono::nanoseconds most = std::chrono::nanoseconds::max();
  };
  void add(const Interval& interval);

  const c10::Device device_;
  device::EventTimeline timeline_;
  std::deque<Interval> intervals_;  // [point of timeline_]
  std::size_t points_in_step_ = 0;  // of a step that may still fail
};

}  // namespace brigade::distribute
