#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "brigade/io/file_system.h"

namespace brigade::input {

/// Options of `check_image_files`.
struct ImageCheckOptions {
  /// Of more files, so many are checked, evenly spaced, so that the check takes seconds.
  std::size_t most = 20'000;
  /// The file system of the paths.
  std::shared_ptr<const io::FileSystem> files = io::posix_file_system();
};

/// Finds incomplete image files before a long training reads them: checks the beginning and the end
/// of each file, and decodes those that look wrong. Throws kDataLoss or
/// kUnimplemented, naming the first file that cannot be decoded. Damage in the middle of a file is
/// found only when it is read. Thread-safety: a pure function.
void check_image_files(std::span<const io::Path> paths, const ImageCheckOptions& options = {});

}  // namespace brigade::input
