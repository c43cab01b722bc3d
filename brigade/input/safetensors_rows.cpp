#include "brigade/input/safetensors_rows.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/data/core/source.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/safetensors_header.h"

namespace brigade::input {
namespace {

using base::str_cat;

at::ScalarType type_of(const io::TensorDtype& dtype) {
  if (const auto found = device::file_dtype_named(dtype.name)) return found->type;
  throw Error(ErrorCode::kInternal, "no tensor has the dtype ", dtype.name);
}

/// One tensor of a file, whose rows are read individually.
///
/// Thread-safety: all functions from any thread.
class TensorInFile {
 public:
  TensorInFile(const io::FileSystem& files, io::Path path, const std::string& name)
      : path_(std::move(path)), file_(files.open(path_)) {
    const auto info = files.info(path_);
    const std::uint64_t size = info ? info->size : 0;
    const auto head = read(0, std::min<std::uint64_t>(size, io::kSafetensorsLengthBytes));
    const auto length = io::safetensors_header_length(head, size, path_.string());
    data_ = io::kSafetensorsLengthBytes + length;
    entry_ =
        entry_named(name, io::parse_safetensors_header(read(io::kSafetensorsLengthBytes, length),
                                                       size - data_, path_.string()));
  }

  const std::vector<std::int64_t>& shape() const { return entry_.shape; }
  at::Tensor whole() const { return read_tensor(entry_.shape, 0); }
  at::Tensor row(std::int64_t index) const {
    const std::vector<std::int64_t> shape(entry_.shape.begin() + 1, entry_.shape.end());
    const auto rows = static_cast<std::uint64_t>(entry_.shape.front());
    const std::uint64_t bytes = (entry_.end - entry_.begin) / rows;
    return read_tensor(shape, static_cast<std::uint64_t>(index) * bytes);
  }

 private:
  static io::TensorEntry entry_named(const std::string& name, io::SafetensorsHeader header) {
    std::vector<std::string> names;
    for (io::TensorEntry& each : header.tensors) {
      if (each.name == name) return std::move(each);
      names.push_back(each.name);
    }
    throw Error(ErrorCode::kNotFound, "There is no tensor ", base::quoted(name),
                "; there are: ", base::listed(names, ", "), ".");
  }
  std::string read(std::uint64_t offset, std::uint64_t size) const {
    std::string bytes(size, '\0');
    fill(offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
  at::Tensor read_tensor(const std::vector<std::int64_t>& shape, std::uint64_t offset) const {
    at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type_of(entry_.dtype)));
    if (tensor.numel() == 0) return tensor;
    fill(data_ + entry_.begin + offset,
         {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
    return tensor;
  }
  void fill(std::uint64_t offset, std::span<std::byte> to) const {
    concurrency::MutexLock lock(mutex_);
    file_->seek(offset);
    if (file_->read(to) == to.size()) return;
    throw Error(ErrorCode::kDataLoss, path_.string(),
                ": not a valid safetensors file: it ends before byte ", offset + to.size(),
                ". Was it truncated?");
  }

  io::Path path_;
  mutable concurrency::Mutex mutex_;
  std::unique_ptr<io::ReadableFile> file_ BRIGADE_GUARDED_BY(mutex_);
  std::uint64_t data_ = 0;  // where the tensors begin
  io::TensorEntry entry_;
};

std::shared_ptr<const TensorInFile> open_rows(const io::FileSystem& files, const io::Path& path,
                                              const std::string& name) {
  auto tensor = std::make_shared<const TensorInFile>(files, path, name);
  check_argument(!tensor->shape().empty(), "from_safetensors: ", base::quoted(name),
                 " is a scalar; rows need a first dimension");
  return tensor;
}

std::string description(const io::Path& path, const std::string& names) {
  return str_cat("from_safetensors(", path.filename().string(), ", ", names, ")");
}

at::Tensor labels_for(const TensorInFile& labels, const std::string& name, std::int64_t rows) {
  const at::Tensor all = labels.whole();
  const bool fits = all.dim() == 1 && all.size(0) == rows &&
                    at::isIntegralType(all.scalar_type(), /*includeBool=*/false);
  check_argument(fits, "from_safetensors: the labels ", base::quoted(name), " are ",
                 toString(all.scalar_type()), " [", base::join(labels.shape(), ", "),
                 "]; there must be ", rows, " integers, one per row");
  return all.to(at::kLong);
}

}  // namespace

data::Dataset<at::Tensor> from_safetensors(const io::Path& path, const std::string& name,
                                           std::shared_ptr<const io::FileSystem> files) {
  const auto rows = open_rows(*files, path, name);
  return data::from_indexed<at::Tensor>(
      rows->shape().front(), [rows](std::int64_t index) { return rows->row(index); },
      description(path, name));
}

data::Dataset<LabeledExample> from_safetensors(const io::Path& path, const std::string& features,
                                               const std::string& labels,
                                               std::shared_ptr<const io::FileSystem> files) {
  const auto rows = open_rows(*files, path, features);
  const std::int64_t count = rows->shape().front();
  const at::Tensor all = labels_for(TensorInFile(*files, path, labels), labels, count);
  return data::from_indexed<LabeledExample>(
      count,
      [rows, all](std::int64_t index) {
        return LabeledExample{rows->row(index), all.const_data_ptr<std::int64_t>()[index]};
      },
      description(path, str_cat(features, ", ", labels)));
}

}  // namespace brigade::input
