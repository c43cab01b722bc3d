#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/data/files.h"
#include "brigade/io/file_system.h"

namespace brigade::input::internal {

using FileListPtr = std::shared_ptr<const data::internal::FileList>;

/// The numbers 0, 1, ... of the files of a list, for datasets with one element a file: they are
/// cheap to shuffle, and a map that comes later reads the files on many threads. Unlike
/// `from_files` it knows how many elements there are. Workers can share it out by files.
data::Dataset<std::int64_t> file_numbers(FileListPtr files);

}  // namespace brigade::input::internal
