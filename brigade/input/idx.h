#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "brigade/io/file_system.h"

namespace brigade::input {

/// The idx format of the MNIST files: a magic number (0, 0, the type, the number of dimensions),
/// each dimension as a big-endian 32-bit number, then the values. Only unsigned bytes, the type
/// 0x08, are read; that is what the data sets use.
///
/// All functions read a file either plain or as gzip, whatever its name. They throw kNotFound if it
/// is missing, kInvalidArgument if it is of another kind (its magic number), kDataLoss if it is cut
/// short, broken, or longer than its dimensions say, and kResourceExhausted if there is no memory
/// for it: one sentence with the file, what was found and what was expected. No more is read, and
/// no more memory taken, than the dimensions say, and these are first compared with the file's
/// size.

/// Images: uint8 [count, rows, columns], from a file with magic number 2051.
at::Tensor idx_images(const io::FileSystem& files, const io::Path& path);

/// Labels: uint8 [count], from a file with magic number 2049.
at::Tensor idx_labels(const io::FileSystem& files, const io::Path& path);

/// The values in the bytes of an idx file with `dimensions` dimensions (1 to 4): uint8. `name` says
/// in errors which file it was.
at::Tensor parse_idx(std::string_view bytes, std::string_view name, int dimensions);

}  // namespace brigade::input
