#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/checkpoint/saver_options.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"
#include "brigade/train/session/workers_saver.h"

namespace brigade::train {

class CheckpointSavingHook;

/// Whether the training continues after a save. If a listener of one worker stops it, all workers
/// stop before the next step.
enum class AfterSave { kContinue, kStop };

/// Called around each save (TensorFlow: CheckpointSaverListener), for example to evaluate. By
/// default the functions do nothing.
///
/// Thread-safety: the session calls every member on its own thread, outside of replicas.
class CheckpointListener {
 public:
  virtual ~CheckpointListener() = default;
  /// Called when the session begins, before anything is restored.
  virtual void begin(SessionContext&) {}
  /// Called before the state is read.
  virtual void before_save(SessionContext&) {}
  /// Called when the state has been copied; it may still be being written.
  virtual AfterSave after_save(SessionContext&) { return AfterSave::kContinue; }
  /// Called once at the end of the session, after its last save; also after an error.
  virtual void end(SessionContext&) {}
};

/// Saves the whole training state: when the session is ready, unless it was restored from the same
/// checkpoint and is at its step; when a save is due; and at the end, if there were steps since the
/// last save. A save that is due between two micro-batches of one update waits for the update.
/// After an error, or a stop with AtStop::kDiscard, nothing is saved at the end.
///
/// With several workers each worker has this hook: all read the state together, the chief writes
/// it, alone or with the others (`WorkersSaver`), and at the end the others wait for the chief. In
/// workers without collectives the hook of the chief saves; those of others do nothing.
///
/// An error of a background write is thrown by the next save. At the end, an error of the previous
/// write is logged, and an error of the last write is thrown by `end`.
struct CheckpointSaverHook {
  /// `directory` must be set.
  checkpoint::SaverOptions saver;
  /// How often to save; `Every{}`: at the start and at the end only.
  Every every = {.time = std::chrono::seconds(600)};
  /// Called around each save, in this order. None may be null.
  std::vector<std::shared_ptr<CheckpointListener>> listeners = {};

  /// Throws kInvalidArgument for invalid options.
  std::shared_ptr<CheckpointSavingHook> hook() const;
};

/// The hook of `CheckpointSaverHook`.
class CheckpointSavingHook final : public SessionRunHook {
 public:
  explicit CheckpointSavingHook(CheckpointSaverHook options);

  void begin(SessionContext& context) override;
  void after_create_session(SessionContext& context) override;
  void after_run(SessionContext& context, const StepValues& values) override;
  /// Saves by steps are exact; those by time wait for the end of the round.
  bool must_see(const SessionContext& context) const override;
  void end(SessionContext& context) override;

  /// Waits for the current write; the next save throws its error.
  void wait();
  /// Renames checkpoints of its directory that were found broken; in the chief.
  void set_aside(const std::vector<io::Path>& broken);

 private:
  void save(SessionContext& context);
  bool is_saved_already(const SessionContext& context);
  bool is_due(const SessionContext& context) const;
  void save_last(SessionContext& context);

  const CheckpointSaverHook options_;
  std::optional<WorkersSaver> saver_;  // since `begin`
  std::optional<StepTimer> timer_;
  std::optional<std::size_t> chiefs_timer_;  // with a time
};

}  // namespace brigade::train
