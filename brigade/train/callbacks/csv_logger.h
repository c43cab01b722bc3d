#pragma once

#include <memory>
#include <string>

#include "brigade/io/file_system.h"
#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

/// Whether a file that is there is gone on with.
enum class AppendToFile { kNo, kYes };

/// Writes a line an epoch into a file of comma-separated values: the epoch (from 0), and the
/// figures of the first epoch in the order of their names. A figure that an epoch lacks is "NA".
/// Keras: CSVLogger.
struct CsvLogger {
  io::Path path = {};
  std::string separator = ",";
  /// With kYes no second header is written.
  AppendToFile append = AppendToFile::kNo;

  /// Throws kInvalidArgument without a path. The callback throws kUnavailable if the file cannot be
  /// written.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
