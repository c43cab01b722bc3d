#pragma once

#include "brigade/io/file_system.h"

namespace brigade::io {

// Cleaning up folders that may contain files of others: only regular files whose names are the
// caller's are removed; links are not followed. Everything else stays and is reported by one
// warning. All code in Brigade that removes files which it has not just created uses these
// functions.

/// Removes a folder that the caller has made, with its files. Returns whether `directory` no longer
/// exists. Throws as `FileSystem::remove_files`.
bool remove_own_folder(FileSystem& files, const Path& directory, const IsOwnName& is_own);

/// Removes the caller's files in a shared folder. Files of others are not reported. Throws as
/// `FileSystem::remove_files`.
void remove_own_files(FileSystem& files, const Path& directory, const IsOwnName& is_own);

/// Removes one file. Returns whether `path` no longer exists. Throws as `FileSystem`.
bool remove_own_file(FileSystem& files, const Path& path);

}  // namespace brigade::io
