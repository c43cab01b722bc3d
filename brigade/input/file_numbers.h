#pragma once

#include <cstdint>

#include "brigade/data/dataset.h"
#include "brigade/data/sources/file_elements.h"

namespace brigade::input::internal {

using data::internal::FileListPtr;

/// The numbers 0, 1, ... of the files of a list, for datasets with one element per file: they are
/// cheap to shuffle, and a later map reads the files on many threads. Unlike `from_files` it knows
/// its cardinality. It can be sharded by files.
data::Dataset<std::int64_t> file_numbers(FileListPtr files);

}  // namespace brigade::input::internal
