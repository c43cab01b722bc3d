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

/// A server without a replica is to use `folder`. If a replicated one has used it before, an epoch
/// begins, so that the folder of its replica no longer counts as equal to this one. Throws
/// kFailedPrecondition for the folder of a process that was being filled by the other one: it has
/// nothing, and the other one has the variables; and if the folder of its replica, `replica`, is
/// there, too, with a later epoch.
void begin_epoch_alone(io::FileSystem& files, const io::Path& folder, const io::Path& replica);

}  // namespace brigade::ps
