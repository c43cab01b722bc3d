#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

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
