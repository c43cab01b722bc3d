#pragma once

#include <cstdint>
#include <memory>

#include "brigade/io/file_system.h"
#include "brigade/train/callbacks/callback.h"
#include "brigade/train/graph/graph_writer.h"

namespace brigade::train {

/// When figures are written.
enum class UpdateFrequency {
  kEpoch,  ///< behind each epoch
  kBatch   ///< the loss behind each batch, too, which waits for the devices
};

/// Writes what TensorBoard shows: figures of training under `log_dir`/train, of validation under
/// `log_dir`/validation, as "epoch_loss", "epoch_accuracy", ... over epochs and "batch_loss" over
/// steps. Keras: TensorBoard.
struct TensorBoard {
  io::Path log_dir = "logs";
  UpdateFrequency update_freq = UpdateFrequency::kEpoch;
  /// Every so many epochs the distribution of each variable; 0: never.
  std::int64_t histogram_freq = 0;
  /// The model's graph, behind the first batch.
  WriteGraph write_graph = WriteGraph::kYes;

  /// Throws kInvalidArgument without a folder, and for a negative `histogram_freq`.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
