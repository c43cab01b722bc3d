#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

// How checkpoints and what a save or a removal left go away. Only files that a saver writes are
// removed, and only out of folders: what others have put there stays, as does what a symbolic link
// leads to, and a warning says so (`io::remove_own_folder`).

/// Whether a saver writes files of this name into a checkpoint's folder.
bool is_checkpoint_file(std::string_view name);

/// Makes a folder that is no checkpoint yet for step `step`; `nonce` makes its name one that nobody
/// had before. What a crash left under that name goes; if something of it stays, the name is
/// another.
io::Path make_saving_folder(io::FileSystem& files, const io::Path& directory, std::int64_t step,
                            std::string_view nonce);

/// Removes a folder of `make_saving_folder`, or what is left of a checkpoint.
void remove_checkpoint_folder(io::FileSystem& files, const io::Path& folder);

/// Removes checkpoints of `directory`. They lose their names first, for good, so that half a one is
/// never seen; everything done to the names in `directory` so far is on the disk then. One that is
/// no folder but a link or a file stays as it is.
void remove_checkpoints(io::FileSystem& files, const io::Path& directory,
                        std::span<const io::Path> checkpoints);

/// Removes what saves and removals that were cut short have left in `directory`.
void remove_unfinished_saves(io::FileSystem& files, const io::Path& directory);

/// Gives a broken checkpoint a name under which nobody looks for one, `<name>.broken`, with a
/// warning; nobody removes it then. Returns the new path, or `checkpoint` if that is no folder and
/// stays. Syncs nothing.
io::Path set_aside(io::FileSystem& files, const io::Path& checkpoint);

/// Removes everything that savers have made in `directory`, and that itself if nothing else is in
/// it; broken checkpoints are set aside. A link at `directory` itself is followed, and stays.
void clear_directory(io::FileSystem& files, const io::Path& directory);

}  // namespace brigade::checkpoint
