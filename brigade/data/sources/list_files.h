#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/data/transforms/shuffle.h"
#include "brigade/io/file_system.h"

namespace brigade::data {

/// The files whose paths match a pattern, in byte order: `*` stands for any text, `?` for any
/// character, `[a-c]` for one of these and `[!a-c]` for one of all others, none of them for a '/',
/// nor for a '.' that a name begins with. Folders and what is no file are left out. Throws
/// kNotFound, naming the pattern, if there are none; kInvalidArgument for an empty pattern.
///
/// `files` is where to look; by default on this machine. TensorFlow counterpart: tf.io.gfile.glob.
std::vector<io::Path> match_files(const std::string& pattern,
                                  std::shared_ptr<const io::FileSystem> files = nullptr);

/// The files that match any of the patterns, in byte order, each once. Each pattern must match.
std::vector<io::Path> match_files(const std::vector<std::string>& patterns,
                                  std::shared_ptr<const io::FileSystem> files = nullptr);

/// Whether files come in another order in each epoch, or by name.
enum class FileOrder { kShuffled, kByName };

struct ListFilesOptions {
  FileOrder order = FileOrder::kShuffled;
  /// Fixes the shuffled order. Unset: drawn from the seed of the walk.
  std::optional<std::uint64_t> seed{};
  /// Where the files lie. Unset: on this machine.
  std::shared_ptr<const io::FileSystem> file_system{};
};

/// The paths of the files that match, found now: for `interleave`, say. By default they are
/// shuffled, as in TensorFlow; since they are sorted before, the order is the same on all machines.
///
/// Workers can share the list out by files (AutoShardPolicy::kFile), and so whatever `map`,
/// `interleave` or `flat_map` reads from them: each worker's own files are taken before they are
/// shuffled. Throws as `match_files` does. TensorFlow counterpart: Dataset.list_files.
Dataset<io::Path> list_files(const std::vector<std::string>& patterns,
                             const ListFilesOptions& options = {});

}  // namespace brigade::data
