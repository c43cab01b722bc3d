#pragma once

#include <memory>
#include <string>

#include "brigade/io/file_system.h"
#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

/// Whether to append to an existing file.
enum class AppendToFile { kNo, kYes };

/// Writes one line per epoch to a CSV file: the epoch (from 0), and the metrics of the first epoch,
/// sorted by name. A missing value is "NA". Keras: CSVLogger.
struct CsvLogger {
  io::Path path = {};
  std::string separator = ",";
  /// With kYes, no second header is written.
  AppendToFile append = AppendToFile::kNo;

  /// Throws kInvalidArgument without a path. The callback throws kUnavailable if the file cannot be
  /// written.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
