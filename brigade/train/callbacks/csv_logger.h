#pragma once

#include <memory>
#include <string>

#include "brigade/io/file_system.h"
#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

/// Writes one line per epoch to a CSV file: the epoch (from 0), and the metrics of the first epoch,
/// sorted by name. A missing value is "NA". Keras: CSVLogger.
struct CsvLogger {
  io::Path path = {};
  std::string separator = ",";
  /// Whether to append to an existing file, without a second header.
  bool append = false;

  /// Throws kInvalidArgument without a path. The callback throws kUnavailable if the file cannot be
  /// written.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
