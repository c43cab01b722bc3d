#pragma once

#include <cstdint>
#include <memory>

#include "brigade/io/file_system.h"

namespace brigade::command {

/// Throws unless the run in `model_dir` can be resumed under `seed`. `steps_made` is the number of
/// steps in its run.json. Throws kDataLoss if none of its checkpoints is complete, though it has
/// made steps or has broken checkpoints; kInvalidArgument if the newest was saved with another
/// seed. Reads the newest.
void check_can_resume(const std::shared_ptr<io::FileSystem>& files, const io::Path& model_dir,
                      std::int64_t steps_made, std::uint64_t seed);

}  // namespace brigade::command
