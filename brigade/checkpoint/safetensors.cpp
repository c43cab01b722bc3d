#include "brigade/checkpoint/safetensors.h"

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/safetensors_stream.h"
#include "brigade/io/atomic_write.h"

namespace brigade::checkpoint {
namespace {

/// A file in memory, for `atomic_write`, which takes the complete content.
class MemoryFile final : public io::WritableFile {
 public:
  void write(std::span<const std::byte> bytes) override {
    content_.insert(content_.end(), bytes.begin(), bytes.end());
  }
  void sync() override {}
  void close() override {}
  std::span<const std::byte> content() const { return content_; }
  void reserve(std::size_t bytes) { content_.reserve(bytes); }

 private:
  std::vector<std::byte> content_;
};

}  // namespace

const at::Tensor& SafetensorsFile::at(std::string_view name) const {
  for (const auto& each : tensors) {
    if (each.name == name) return each.tensor;
  }
  std::vector<std::string> names;
  for (const auto& each : tensors) names.push_back(each.name);
  const auto nearest = base::nearest(name, names);
  throw Error(
      ErrorCode::kNotFound,
      base::str_cat("no tensor is called ", base::quoted(name), " among the file's ", names.size(),
                    nearest ? base::str_cat("; did you mean ", base::quoted(*nearest), "?") : ""));
}

void save_safetensors(io::FileSystem& files, const io::Path& path,
                      std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata) {
  constexpr std::size_t kHeaderOfMost = std::size_t{64} << 10;
  std::size_t bytes = kHeaderOfMost;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.defined()) bytes += static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
  }
  MemoryFile file;
  file.reserve(bytes);
  stream_safetensors(file, tensors, metadata);
  io::atomic_write(files, path, file.content());
}

SafetensorsFile read_safetensors(const io::FileSystem& files, const io::Path& path) {
  return read_safetensors_stream(files, path, std::nullopt);
}

}  // namespace brigade::checkpoint
