#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Checkpoints that are kept for ever, counted from one that is kept to the next. Both may be set:
/// then either keeps.
struct KeepEvery {
  /// The first checkpoint at or after each `steps` steps (counted from step 0).
  std::optional<std::int64_t> steps;
  /// The first checkpoint after each `time` (counted from the first saver of the directory).
  /// TensorFlow: keep_checkpoint_every_n_hours.
  std::optional<std::chrono::milliseconds> time;
};

enum class BestIs { kHighest, kLowest };

/// Checkpoints kept because of a metric that was saved with them.
struct BestOf {
  std::string metric;  ///< A key of `Contents::metrics`; checkpoints without it, or with NaN, are
                       ///< not compared.
  BestIs best = BestIs::kHighest;
  std::size_t count = 1;  ///< How many of the best. Of equal ones, the newer.
};

enum class Writing {
  kBackground,  ///< `save` returns when everything is copied; a thread of the saver's writes.
  kForeground,  ///< `save` returns when the checkpoint is on the disk.
};

/// Which processes of a job write tensor files.
enum class Writers {
  kChief,       ///< The chief alone.
  kAllWorkers,  ///< Each its share, into a folder that all must see; the chief commits. For models
                ///< whose writing takes long, on disks that several processes fill faster than one.
};

struct SaverOptions {
  /// Made, if missing, with the folders above it. One saver at a time writes to it.
  io::Path directory;
  /// How many of the newest checkpoints are kept; 0 keeps all. TensorFlow: max_to_keep.
  std::size_t keep_last = 5;
  KeepEvery keep_every = {};
  std::optional<BestOf> best_of = std::nullopt;
  Writing writing = Writing::kBackground;
  /// Files, and threads, over which tensors are spread by size. More than one pays on disks that
  /// take several writers.
  std::size_t shards = 1;
  /// With kAllWorkers a section has as many files as there are workers, or `shards` if that is
  /// more. A session of several workers heeds it (the chief's counts); else, and in a `Saver` that
  /// was given no exchange, there is one process.
  Writers writers = Writers::kChief;
  /// Called with its step when a checkpoint is on the disk, in the process and on the thread that
  /// writes. What it throws is an error of the write, though the checkpoint stays.
  std::function<void(std::int64_t step)> on_saved = {};
};

}  // namespace brigade::checkpoint
