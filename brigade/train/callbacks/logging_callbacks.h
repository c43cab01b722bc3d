#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "brigade/io/file_system.h"
#include "brigade/train/callbacks/callback.h"
#include "brigade/train/graph/model_graph.h"

namespace brigade::train {

/// Writes one line per epoch to a CSV file: the epoch (from 0), and the metrics of the first epoch,
/// sorted by name. A missing value is "NA". Keras: CSVLogger.
struct CsvLogger {
  /// The file to write; must be set.
  io::Path path = {};
  /// The text between two fields of a line.
  std::string separator = ",";
  /// Whether to append to an existing file, without a second header.
  bool append = false;

  /// Throws kInvalidArgument without a path. The callback throws kUnavailable if the file cannot be
  /// written.
  std::shared_ptr<Callback> callback() const;
};

/// When to write metrics.
enum class UpdateFrequency {
  kEpoch,  ///< after each epoch
  kBatch   ///< also the losses after each batch, which waits for the devices
};

/// Writes summaries for TensorBoard: metrics of training to `log_dir`/train, of validation to
/// `log_dir`/validation, as "epoch_loss", "epoch_accuracy", ... over epochs and "batch_loss" over
/// steps. Keras: TensorBoard.
struct TensorBoard {
  /// The directory of the event files.
  io::Path log_dir = "logs";
  /// When metrics are written.
  UpdateFrequency update_freq = UpdateFrequency::kEpoch;
  /// The number of epochs from one histogram of the variables to the next; 0: none.
  std::int64_t histogram_freq = 0;
  /// Whether to write the model's graph, after the first batch.
  bool write_graph = true;

  /// Throws kInvalidArgument for an empty `log_dir`, and for a negative `histogram_freq`.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
