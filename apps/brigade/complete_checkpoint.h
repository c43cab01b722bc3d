#pragma once

#include <memory>

#include "brigade/io/file_system.h"

namespace brigade::command {

/// Resolves a path that a user gives: a model directory stands for the checkpoints in it, a
/// manifest for its checkpoint's folder.
io::Path resolve_checkpoint_path(const io::FileSystem& files, const io::Path& path);

/// The folder of the checkpoint at `path`, or of the newest complete one if a directory of
/// checkpoints or a model directory is there. Reads every byte. Throws kNotFound if there is none,
/// kInvalidArgument for a file, kDataLoss if that checkpoint is corrupt.
io::Path complete_checkpoint(const std::shared_ptr<io::FileSystem>& files, const io::Path& path);

}  // namespace brigade::command
