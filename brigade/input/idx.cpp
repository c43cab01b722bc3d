#include "brigade/input/idx.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <string>

#include "brigade/data/idx_header.h"
#include "brigade/io/gzip.h"

namespace brigade::input {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 31;  // 40 times the training set of MNIST

at::Tensor read_idx(const io::FileSystem& files, const io::Path& path, int dimensions) {
  const std::string bytes = files.read(path);
  const std::string name = path.string();
  if (!io::is_gzip(bytes)) return parse_idx(bytes, name, dimensions);
  return parse_idx(io::gunzip(bytes, name, kMostBytes), name, dimensions);
}

}  // namespace

at::Tensor parse_idx(std::string_view bytes, std::string_view name, int dimensions) {
  const data::IdxContent content = data::parse_idx_bytes(bytes, name, dimensions);
  at::Tensor tensor = at::empty(content.shape, at::kByte);
  if (!content.values.empty()) {
    std::memcpy(tensor.mutable_data_ptr(), content.values.data(), content.values.size());
  }
  return tensor;
}

at::Tensor idx_images(const io::FileSystem& files, const io::Path& path) {
  return read_idx(files, path, 3);
}

at::Tensor idx_labels(const io::FileSystem& files, const io::Path& path) {
  return read_idx(files, path, 1);
}

}  // namespace brigade::input
