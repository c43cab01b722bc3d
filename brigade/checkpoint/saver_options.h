#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Checkpoints that are kept forever; each interval starts at the last one kept. If both are set,
/// either rule keeps a checkpoint.
struct KeepEvery {
  /// The first checkpoint at or after each `steps` steps (counted from step 0).
  std::optional<std::int64_t> steps;
  /// The first checkpoint after each `time` (counted from the first saver of the directory).
  /// TensorFlow: keep_checkpoint_every_n_hours.
  std::optional<std::chrono::milliseconds> time;
};

/// Which values of a metric are better.
enum class BestIs { kHighest, kLowest };

/// Checkpoints kept because of a metric that was saved with them.
struct BestOf {
  std::string metric;  ///< A key of `Contents::metrics`; checkpoints without it, or with NaN, are
                       ///< not compared.
  BestIs best = BestIs::kHighest;
  std::size_t count = 1;  ///< How many of the best. Of equal ones, the newer one.
};

/// Whether `save` waits for the disk.
enum class Writing {
  kBackground,  ///< `save` returns when everything is copied; the saver's thread writes.
  kForeground,  ///< `save` returns when the checkpoint is on the disk.
};

/// Which processes of a job write tensor files.
enum class Writers {
  kChief,       ///< The chief alone.
  kAllWorkers,  ///< Each worker writes its shards into a folder that all must see; the chief
                ///< commits. For large models, on disks where several writers are faster than one.
};

/// Options of Saver, and of all that saves checkpoints: where, how many are kept, and who writes.
struct SaverOptions {
  /// Created if missing, with its parent folders. Only one saver at a time may write to it.
  io::Path directory;
  /// How many of the newest checkpoints are kept; 0 keeps all. TensorFlow: max_to_keep.
  std::size_t keep_last = 5;
  /// Checkpoints that are kept besides the newest; none by default.
  KeepEvery keep_every = {};
  std::optional<BestOf> best_of = std::nullopt;
  /// kBackground costs the copy in memory, and training goes on.
  Writing writing = Writing::kBackground;
  /// Files, and threads, over which tensors are spread by size. More than one helps on disks that
  /// are faster with several writers.
  std::size_t shards = 1;
  /// With kAllWorkers a section has as many files as there are workers, or `shards` if that is
  /// more. A session of several workers uses the chief's value; otherwise, and in a `Saver` without
  /// an exchange, one process writes.
  Writers writers = Writers::kChief;
  /// Called with the step when a checkpoint is on the disk, on the thread that wrote it. An
  /// exception from it is an error of the write, although the checkpoint stays.
  std::function<void(std::int64_t step)> on_saved = {};
};

}  // namespace brigade::checkpoint
