#pragma once

#include "brigade/io/file_system.h"

namespace brigade::io {

// Cleaning up, for folders in which others may have put something: only regular files are removed,
// and only those whose names say that they are the caller's; links are not followed. All else stays
// and is told by one warning. Everything in Brigade that removes files which it has not made in the
// same breath uses these.

/// Removes a folder that the caller has made, with its files. Returns whether nothing is at
/// `directory` any more. Throws as `FileSystem::remove_files`.
bool remove_own_folder(FileSystem& files, const Path& directory, const IsOwnName& is_own);

/// Removes the caller's files in a folder that holds others' too, which it does not mention.
/// Throws as `FileSystem::remove_files`.
void remove_own_files(FileSystem& files, const Path& directory, const IsOwnName& is_own);

/// Removes one file. Returns whether nothing is at `path` any more. Throws as `FileSystem`.
bool remove_own_file(FileSystem& files, const Path& path);

}  // namespace brigade::io
