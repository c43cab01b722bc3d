#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace brigade::device {

/// Whether two versions of libtorch can stand in for each other at run time, given as
/// TORCH_ABI_VERSION: those of one series, such as 2.11.0 and 2.11.1. Nothing is promised between
/// series, where classes change their layout.
bool is_same_torch_series(std::uint64_t built, std::uint64_t loaded);

/// The libtorch of this process, as TORCH_ABI_VERSION; nothing for one before 2.10, which does not
/// say.
std::optional<std::uint64_t> loaded_torch_version();

/// Throws kFailedPrecondition, naming both versions and the file, if the libtorch of this process
/// is of another series than the headers that Brigade was compiled with.
///
/// A program calls it when it is loaded, before its `main`, and then writes the message to standard
/// error and ends with exit code 1: whatever it did next could corrupt memory.
void check_torch_version();

}  // namespace brigade::device
