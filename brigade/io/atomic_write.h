#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "brigade/io/file_system.h"

namespace brigade::io {

/// Replaces the content of `path` with `bytes` atomically: a reader sees the old file or the new
/// one, never a mixture, even after a crash of the program or the machine. When it returns, the new
/// file is on the disk.
///
/// It writes a temporary file next to the target (`.<name>.<process>.<n>.tmp`), syncs it, renames
/// it over the target and syncs the folder. On an error the temporary file is removed; only a crash
/// can leave one. The folder must exist. A symbolic link at `path` is replaced, not followed. If
/// only the last sync fails, the new content is in place but may not survive a crash of the
/// machine.
///
/// Throws as `FileSystem` does, and kInvalidArgument if `path` names no file.
void atomic_write(FileSystem& files, const Path& path, std::span<const std::byte> bytes);
void atomic_write(FileSystem& files, const Path& path, std::string_view text);

/// The same for a file that may not fit into memory: `fill` writes it, and if `fill` throws, the
/// old file stays. `fill` must not keep the file; closing it is not needed.
void atomic_write(FileSystem& files, const Path& path,
                  const std::function<void(std::unique_ptr<WritableFile>)>& fill);

/// The same without the last sync, for a caller that syncs the folder itself: until then a crash of
/// the machine may restore the old file.
void replace_file(FileSystem& files, const Path& path, std::string_view text);

/// As `FileSystem::create_directories`, and returns once the folder survives a crash of the
/// machine: it is lost with any of its parent folders, and whoever created those may not have
/// synced them. Parent folders that this process has no permission for are not synced: it did not
/// create them.
///
/// Thread-safety: as that of `files`.
void create_synced_directories(FileSystem& files, const Path& directory);

}  // namespace brigade::io
