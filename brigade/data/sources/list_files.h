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

/// The files whose paths match a pattern, in byte order: `*` matches any text, `?` any character,
/// `[a-c]` one of these characters and `[!a-c]` any other; none of them matches a '/' or a leading
/// '.' of a name. Only regular files are returned. Throws kNotFound, naming the pattern, if there
/// are none; kInvalidArgument for an empty pattern.
///
/// `files` is the file system; by default the local one. TensorFlow counterpart: tf.io.gfile.glob.
std::vector<io::Path> match_files(const std::string& pattern,
                                  std::shared_ptr<const io::FileSystem> files = nullptr);

/// The files that match any of the patterns, in byte order, each once. Each pattern must match.
std::vector<io::Path> match_files(const std::vector<std::string>& patterns,
                                  std::shared_ptr<const io::FileSystem> files = nullptr);

/// Whether the order of files changes in each epoch, or is sorted by name.
enum class FileOrder { kShuffled, kByName };

/// Options of `list_files` and `match_files`.
struct ListFilesOptions {
  /// Whether the order changes in each epoch, or is by name.
  FileOrder order = FileOrder::kShuffled;
  /// Seed of the shuffled order. Unset: derived from the iterator's seed.
  std::optional<std::uint64_t> seed{};
  /// The file system. Unset: the local one.
  std::shared_ptr<const io::FileSystem> file_system{};
};

/// The paths of the matching files, for example for `interleave`. The files are looked up once, by
/// this call. By default they are shuffled, as in TensorFlow; as they are sorted first, the order
/// is the same on all machines.
///
/// The list can be sharded by files (AutoShardPolicy::kFile), and so can everything that `map`,
/// `interleave` or `flat_map` reads from them: each worker's files are selected before shuffling.
/// Throws as `match_files` does. TensorFlow counterpart: Dataset.list_files.
Dataset<io::Path> list_files(const std::vector<std::string>& patterns,
                             const ListFilesOptions& options = {});

}  // namespace brigade::data
