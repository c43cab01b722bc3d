#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "brigade/checkpoint/saver_options.h"
#include "brigade/io/file_system.h"
#include "brigade/train/callbacks/callback.h"
#include "brigade/train/callbacks/metric_monitor.h"

namespace brigade::train {

enum class SaveBestOnly { kNo, kYes };

/// Saves everything that a checkpoint holds (weights, optimizer, position) behind each epoch, or
/// every so many batches, in the background; `checkpoint::Checkpoint` and `restore_variables` read
/// it. Keras: ModelCheckpoint. To go on after a crash use `FitOptions::session` and its
/// `checkpoint_dir` instead.
struct ModelCheckpoint {
  io::Path directory = {};
  std::string monitor = "val_loss";
  /// With kYes only epochs whose figure is the best so far.
  SaveBestOnly save_best_only = SaveBestOnly::kNo;
  MonitorMode mode = MonitorMode::kAuto;
  /// A value that the first one has to beat.
  std::optional<double> initial_value_threshold = std::nullopt;
  /// Counted over epochs. Unset: behind each epoch.
  std::optional<std::int64_t> every_batches = std::nullopt;
  /// How many of the newest stay; 0: all, as in Keras.
  std::size_t keep_last = 5;
  /// Of several workers, which all need this callback.
  checkpoint::Writers writers = checkpoint::Writers::kChief;

  /// Throws kInvalidArgument without a directory, for `every_batches` below 1 or beside
  /// `save_best_only`, and as `MetricMonitor`.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
