#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/io/file_system.h"
#include "brigade/summary/trace.h"
#include "brigade/train/graph/operation_recorder.h"
#include "brigade/train/hooks/every.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

/// A range of steps, both ends included; the first step of a training is 1.
struct StepRange {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

struct ProfilerHookOptions {
  /// The directory of `timeline-<step>.json`; created if missing.
  io::Path directory;
  /// Writes one trace of all these steps, with the number of the last one.
  std::optional<StepRange> steps = std::nullopt;
  /// Writes traces of single steps.
  Every every = {};
};

/// Writes Chrome traces of steps (for ui.perfetto.dev): the step, the hooks, saving, the spans that
/// the program measures with `MonitoredTrainingSession::spans`, and libtorch's operations, with
/// separate rows for each replica. If the session writes summaries, it also writes the times of the
/// nodes of the model's graph in the last of these steps, as "step_<step>" for TensorBoard. Steps
/// that are not recorded have no overhead.
class ProfilerHook final : public SessionRunHook {
 public:
  /// Throws kInvalidArgument without a directory, for an empty range, and if neither `steps` nor
  /// `every` is set.
  explicit ProfilerHook(ProfilerHookOptions options);
  void begin(SessionContext& context) override;
  void before_run(SessionContext& context) override;
  void after_run(SessionContext& context, const StepValues& values) override;
  /// Writes a range that was cut short by the end of the training.
  void end(SessionContext& context) override;

 private:
  void take_operations();
  void write(SessionContext& context);
  void write_timings(SessionContext& context);
  ProfilerHookOptions options_;
  std::optional<StepTimer> timer_;
  bool is_recording_ = false;
  std::int64_t last_ = 0;  // of the current recording
  std::optional<OperationRecorder> operations_;
  OperationRecord last_step_;
  std::vector<summary::TraceEvent> events_;  // operations of the recorded steps
  std::map<std::pair<std::int64_t, std::uint64_t>, std::int64_t> rows_;  // by replica and thread
};

}  // namespace brigade::train
