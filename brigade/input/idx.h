#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/io/file_system.h"

namespace brigade::input {

/// The idx format of the MNIST files: a magic number (0, 0, the type, the number of dimensions),
/// each dimension as a big-endian 32-bit number, then the values. Only unsigned bytes, type
/// 0x08, are supported.
///
/// All functions read plain and gzip files, whatever their name. They throw kNotFound if the file
/// is missing, kInvalidArgument if its magic number does not match, kDataLoss if it is truncated,
/// corrupt, or longer than its dimensions require, and kResourceExhausted if there is not enough
/// memory. The message names the file, what was found and what was expected. The dimensions are
/// first compared with the file's size; no more data is read, and no more memory allocated, than
/// they require.

/// Images: uint8 [count, rows, columns], from a file with magic number 2051.
at::Tensor idx_images(const io::FileSystem& files, const io::Path& path);

/// Labels: uint8 [count], from a file with magic number 2049.
at::Tensor idx_labels(const io::FileSystem& files, const io::Path& path);

}  // namespace brigade::input
