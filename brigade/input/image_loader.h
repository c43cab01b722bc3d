#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "brigade/image/image.h"
#include "brigade/input/file_numbers.h"
#include "brigade/input/image_folder.h"

namespace brigade::input::internal {

/// Reads the image files of a list as tensors of one size; internal.
///
/// Thread-safety: immutable.
class ImageLoader {
 public:
  ImageLoader(FileListPtr list, const ImageFolderOptions& options);

  /// Loads file `number` of the list. Errors name it.
  at::Tensor load(std::int64_t number) const;
  /// The options that determine the pixels, for the pipeline description.
  std::string describe() const;

 private:
  image::Image decode(const std::string& bytes) const;
  std::int64_t largest_ratio(const image::Size& stored) const;
  at::Tensor tensor_of(const image::Image& image) const;

  FileListPtr list_;
  ImageFolderOptions options_;
  std::shared_ptr<const io::FileSystem> files_;
};

}  // namespace brigade::input::internal
