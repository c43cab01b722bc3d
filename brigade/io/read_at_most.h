#pragma once

#include <cstdint>
#include <string>

#include "brigade/io/file_system.h"

namespace brigade::io {

/// A limit for descriptions of a run, a cluster or a data set.
inline constexpr std::uint64_t kMostBytesOfText = std::uint64_t{16} << 20;

/// The complete content of a small file, such as a configuration. Throws kInvalidArgument, with
/// both sizes, if it has more than `most` bytes: then the file is not read, and of a file that
/// grows meanwhile no more than that is read. Otherwise as `FileSystem::read`.
///
/// Thread-safety: as that of `files`.
std::string read_at_most(const FileSystem& files, const Path& path, std::uint64_t most);

}  // namespace brigade::io
