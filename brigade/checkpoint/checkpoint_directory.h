#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

// Removal of checkpoints and of what unfinished saves and removals left. Only files that a saver
// writes are removed, and only from folders. Files of others and targets of symbolic links stay,
// with a warning (`io::remove_own_folder`).

/// Whether a saver writes files of this name into a checkpoint folder.
bool is_checkpoint_file(std::string_view name);

/// Makes a temporary folder for the checkpoint of step `step`; `nonce` makes its name unique. What
/// a crash left under that name is removed; if something of it has to stay, another name is chosen.
io::Path make_saving_folder(io::FileSystem& files, const io::Path& directory, std::int64_t step,
                            std::string_view nonce);

/// Removes a folder made by `make_saving_folder`, or the rest of a checkpoint.
void remove_checkpoint_folder(io::FileSystem& files, const io::Path& folder);

/// Removes checkpoints of `directory`. They are renamed first, and the renames are synced, so a
/// half-removed checkpoint is never seen; this syncs all earlier changes of names in `directory`
/// too. A link or a file in place of a folder stays.
void remove_checkpoints(io::FileSystem& files, const io::Path& directory,
                        std::span<const io::Path> checkpoints);

/// Removes what interrupted saves and removals have left in `directory`.
void remove_unfinished_saves(io::FileSystem& files, const io::Path& directory);

/// Renames a broken checkpoint to `<name>.broken`, with a warning. Under that name it is neither
/// loaded nor removed. Returns the new path, or `checkpoint` if that is not a folder. Syncs
/// nothing.
io::Path set_aside(io::FileSystem& files, const io::Path& checkpoint);

/// Removes everything that savers have made in `directory`, and the directory itself if it is empty
/// then; broken checkpoints are set aside. If `directory` is a link, it is followed, and stays.
void clear_directory(io::FileSystem& files, const io::Path& directory);

}  // namespace brigade::checkpoint
