#pragma once

#include <cstdint>
#include <string>

#include "brigade/io/file_system.h"

namespace brigade::io {

/// More than any description of a run, a cluster or a data set takes.
inline constexpr std::uint64_t kMostBytesOfText = std::uint64_t{16} << 20;

/// The whole of a file that has no reason to be large, such as a configuration. Throws
/// kInvalidArgument, with both sizes, if it has more than `most` bytes: then nothing of it is read,
/// and of one that grows meanwhile no more than that. Otherwise as `FileSystem::read`.
///
/// Thread-safety: as that of `files`.
std::string read_at_most(const FileSystem& files, const Path& path, std::uint64_t most);

}  // namespace brigade::io
