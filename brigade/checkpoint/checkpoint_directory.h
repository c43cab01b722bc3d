#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/manifest.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// A folder of a checkpoint directory with a checkpoint's name.
struct DirectoryEntry {
  io::Path path;
  std::int64_t step = 0;  ///< Taken from the folder's name, as is `attempt`.
  int attempt = 1;
  std::optional<Manifest>
      manifest;        ///< Set if the checkpoint is complete and all files have the recorded size.
  std::string reason;  ///< Otherwise: why it is not complete.
};

/// All checkpoints in `directory`: first the complete ones by number, oldest first, then the broken
/// ones by the step in their name. Empty if the folder does not exist.
///
/// Throws kUnimplemented, naming the checkpoint, if its format is newer than this build reads.
/// Without that checkpoint it is unknown which one is newest, which numbers are in use and which
/// may be removed. So training never resumes from an older one, and its number is never reused.
std::vector<DirectoryEntry> list_checkpoints(const io::FileSystem& files,
                                             const io::Path& directory);

/// Reads the manifest in `folder` and verifies the sizes of its files. Throws kDataLoss, kNotFound
/// or kUnimplemented if it is not a complete checkpoint of a known version.
Manifest read_manifest(const io::FileSystem& files, const io::Path& folder);

/// "ckpt-120"; for a step that is saved again, with its attempt, "ckpt-120-2".
std::string folder_name(std::int64_t step, int attempt);

/// Parses a folder's name; nothing if it is not the name of a checkpoint.
struct FolderName {
  std::int64_t step = 0;
  int attempt = 1;
};
std::optional<FolderName> parse_folder_name(std::string_view name);

/// The file in a checkpoint directory that names the newest checkpoint, for users and scripts.
inline constexpr std::string_view kLatestName = "latest";
/// The prefix of folders that are being written or removed. They are not checkpoints.
inline constexpr std::string_view kTemporaryPrefix = ".ckpt-";

}  // namespace brigade::checkpoint
