#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/manifest.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// A folder of a checkpoint directory that is named like a checkpoint.
struct DirectoryEntry {
  io::Path path;
  std::int64_t step = 0;  ///< As its name says; so is the next.
  int attempt = 1;
  std::optional<Manifest> manifest;  ///< If it is whole, and all files have their size.
  std::string reason;                ///< Otherwise: why not.
};

/// All checkpoints in `directory`, whole and broken: the whole ones by their number, oldest first;
/// then the broken ones by the step of their name. Empty if there is no such folder.
///
/// Throws kUnimplemented, naming it, for one whose format is newer than this build reads: it is
/// whole, and what is newest, which numbers are taken and what may be removed cannot be known
/// without it. So nobody goes on before it, reuses its number or removes it.
std::vector<DirectoryEntry> list_checkpoints(const io::FileSystem& files,
                                             const io::Path& directory);

/// Reads the manifest in `folder` and compares the sizes of its files. Throws kDataLoss, kNotFound
/// or kUnimplemented if it is no whole checkpoint of a known version.
Manifest read_manifest(const io::FileSystem& files, const io::Path& folder);

/// "ckpt-120"; with an attempt above 1, for a step that is saved again, "ckpt-120-2".
std::string folder_name(std::int64_t step, int attempt);

/// What a folder's name says, or nothing if it is no name of a checkpoint.
struct FolderName {
  std::int64_t step = 0;
  int attempt = 1;
};
std::optional<FolderName> parse_folder_name(std::string_view name);

/// The file in a checkpoint directory that names the newest checkpoint, for people and scripts.
inline constexpr std::string_view kLatestName = "latest";
/// How folders begin that are being written or removed: no checkpoints.
inline constexpr std::string_view kTemporaryPrefix = ".ckpt-";

}  // namespace brigade::checkpoint
