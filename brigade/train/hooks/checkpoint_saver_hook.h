#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/checkpoint/saver_options.h"
#include "brigade/train/hooks/every.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"
#include "brigade/train/session/workers_saver.h"

namespace brigade::train {

/// Whether the training goes on behind a save.
enum class AfterSave { kContinue, kStop };

/// Does something around each save (TensorFlow: CheckpointSaverListener), such as evaluating.
class CheckpointListener {
 public:
  virtual ~CheckpointListener() = default;
  virtual void begin(SessionContext&) {}
  virtual void before_save(SessionContext&) {}
  /// The state has been copied; the write may still be under way.
  virtual AfterSave after_save(SessionContext&) { return AfterSave::kContinue; }
  virtual void end(SessionContext&) {}
};

struct CheckpointSaverHookOptions {
  /// Its directory must be set.
  checkpoint::SaverOptions saver;
  Every every = {.time = std::chrono::seconds(600)};
  std::vector<std::shared_ptr<CheckpointListener>> listeners = {};
};

/// Saves the whole training: when the session is ready, unless it was restored from the very
/// checkpoint that would be written; when it is due; and at the end, if there were steps since. A
/// save that falls between two micro-batches of one update waits for the update. After an error, or
/// a stop with AtStop::kDiscard, the end saves nothing.
///
/// With several workers every one of them has such a hook: what is saved is read together, the
/// chief writes it, alone or with the others (`WorkersSaver`), and at the end the others wait until
/// it has.
///
/// An error of a write in the background is thrown by the next save; one before the last save of
/// all is logged, and one of that save is thrown by `end`.
class CheckpointSaverHook final : public SessionRunHook {
 public:
  /// Throws kInvalidArgument for options without meaning.
  explicit CheckpointSaverHook(CheckpointSaverHookOptions options);
  ~CheckpointSaverHook() override;

  void begin(SessionContext& context) override;
  void after_create_session(SessionContext& context) override;
  void after_run(SessionContext& context, const StepValues& values) override;
  void end(SessionContext& context) override;

  /// Waits for the write under way; the next save throws its error.
  void wait();
  /// Keeps checkpoints of its directory that were found broken out of the way; in the chief.
  void set_aside(const std::vector<io::Path>& broken);

 private:
  void save(SessionContext& context);
  bool is_saved_already(const SessionContext& context);
  bool is_due(const SessionContext& context) const;
  void save_last(SessionContext& context);

  CheckpointSaverHookOptions options_;
  std::optional<WorkersSaver> saver_;  // since `begin`
  std::optional<StepTimer> timer_;
};

}  // namespace brigade::train
