#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "brigade/io/file_system.h"

namespace brigade::io {

/// Makes `bytes` the whole content of `path`, so that a reader, or whoever comes after a crash of
/// the program or the machine, sees the old file or the new one, never a mixture. When it returns,
/// the new one is on the disk.
///
/// It writes a file beside the target (`.<name>.<process>.<n>.tmp`), syncs it, renames it over the
/// target and syncs the folder. On an error the temporary file is removed; only a crash can leave
/// one behind. The folder must exist. A symbolic link at `path` is replaced, not followed. If only
/// the last sync fails, the new content is in place but may not survive a crash of the machine.
///
/// Throws as `FileSystem` does, and kInvalidArgument if `path` names no file.
void atomic_write(FileSystem& files, const Path& path, std::span<const std::byte> bytes);
void atomic_write(FileSystem& files, const Path& path, std::string_view text);

/// The same for a file that need not fit into memory: `fill` writes it, and what it throws leaves
/// the old file. It must not keep the file that it is given; closing it is not needed.
void atomic_write(FileSystem& files, const Path& path,
                  const std::function<void(std::unique_ptr<WritableFile>)>& fill);

/// The same without the last sync, for a caller who syncs the folder anyway: until then a crash of
/// the machine may bring the old file back.
void replace_file(FileSystem& files, const Path& path, std::string_view text);

}  // namespace brigade::io
