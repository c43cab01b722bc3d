#pragma once

#include <cstdint>
#include <optional>

#include "brigade/io/file_system.h"

namespace brigade::ps {

/// The epoch in a replicated server's `folder` (`coordination::PairStatus::epoch`,
/// docs/formats.md); unset for a folder without one. Throws kDataLoss for a file that `write_epoch`
/// cannot have written.
std::optional<std::int64_t> read_epoch(const io::FileSystem& files, const io::Path& folder);
/// It is on the disk when this returns.
void write_epoch(io::FileSystem& files, const io::Path& folder, std::int64_t epoch);

}  // namespace brigade::ps
