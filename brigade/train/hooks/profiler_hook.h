#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/io/file_system.h"
#include "brigade/summary/trace.h"
#include "brigade/train/hooks/every.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/graph/operation_recorder.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

/// Both included; the first step of a training is 1.
struct StepRange {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

struct ProfilerHookOptions {
  /// Where `timeline-<step>.json` goes; made if missing.
  io::Path directory;
  /// One trace of all these steps, under the last one's number.
  std::optional<StepRange> steps = std::nullopt;
  /// A trace of a single step each time.
  Every every = {};
};

/// Writes what steps spend their time on, as a Chrome trace (ui.perfetto.dev draws it): the step,
/// the hooks, saving, whatever the program measures with `MonitoredTrainingSession::spans`, and
/// libtorch's operations, each replica's in rows of its own. If the session writes summaries,
/// TensorBoard gets the times of the last such step for the nodes of the model's graph, as
/// "step_<step>". Steps that are not recorded cost nothing.
class ProfilerHook final : public SessionRunHook {
 public:
  /// Throws kInvalidArgument without a directory, for an empty range, and without either kind of
  /// steps.
  explicit ProfilerHook(ProfilerHookOptions options);
  void begin(SessionContext& context) override;
  void before_run(SessionContext& context) override;
  void after_run(SessionContext& context, const StepValues& values) override;
  /// Writes a range that the training's end has cut short.
  void end(SessionContext& context) override;

 private:
  void take_operations();
  void write(SessionContext& context);
  void write_timings(SessionContext& context);
  ProfilerHookOptions options_;
  std::optional<StepTimer> timer_;
  bool is_recording_ = false;
  std::int64_t last_ = 0;  // of the recording under way
  std::optional<OperationRecorder> operations_;
  OperationRecord last_step_;
  std::vector<summary::TraceEvent> events_;                              // operations of its steps
  std::map<std::pair<std::int64_t, std::uint64_t>, std::int64_t> rows_;  // by replica and thread
};

}  // namespace brigade::train
