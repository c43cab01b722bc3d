#include "brigade/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/crc32c.h"
#include "brigade/io/safetensors_header.h"

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

static_assert(std::endian::native == std::endian::little,
              "tensors are written as they are in memory");

// Checksums are computed while a piece is still in the processor's cache; small tensors are
// collected into one piece.
constexpr std::size_t kPiece = std::size_t{256} << 10;

template <class... T>
[[noreturn]] void refuse(const T&... pieces) {
  throw Error(ErrorCode::kInvalidArgument, "save_safetensors: ", pieces...);
}

io::TensorEntry entry_of(const NamedTensor& named) {
  const auto& tensor = named.tensor;
  if (named.name == "__metadata__") refuse("a tensor cannot be called '__metadata__'");
  if (!tensor.defined()) refuse("tensor ", base::quoted(named.name), " is undefined");
  const auto dtype = device::file_dtype_of(tensor.scalar_type());
  if (tensor.layout() != at::kStrided || !dtype) {
    refuse("tensor ", base::quoted(named.name), " is ", at::toString(tensor.scalar_type()), ", ",
           tensor.layout(), "; the format holds dense tensors of ", io::tensor_dtypes());
  }
  return {.name = named.name,
          .dtype = {dtype->safetensors, dtype->bytes},
          .shape = tensor.sizes().vec()};
}

/// The tensors in the order of their data: larger elements first, so that each is aligned; then by
/// name.
std::vector<const NamedTensor*> data_order(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> order;
  for (const auto& each : tensors) order.push_back(&each);
  const auto size = [](const NamedTensor* each) {
    return each->tensor.defined() ? each->tensor.element_size() : 0;
  };
  std::sort(order.begin(), order.end(), [&](const NamedTensor* a, const NamedTensor* b) {
    return size(a) != size(b) ? size(a) > size(b) : a->name < b->name;
  });
  return order;
}

void check_unique(std::span<const NamedTensor> tensors) {
  std::vector<std::string_view> names;
  for (const auto& each : tensors) names.push_back(each.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse("two tensors are called ", base::quoted(*twice));
}

/// Writes bytes in pieces of a good size, and computes their checksum.
class SealingWriter {
 public:
  explicit SealingWriter(io::WritableFile& file) : file_(file) { buffer_.reserve(kPiece); }

  void append(std::span<const std::byte> bytes) {
    if (buffer_.size() + bytes.size() <= kPiece) {
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
      return;
    }
    flush();
    for (; bytes.size() > kPiece; bytes = bytes.subspan(kPiece)) write(bytes.first(kPiece));
    buffer_.assign(bytes.begin(), bytes.end());
  }
  Seal finish() {
    flush();
    return seal_;
  }

 private:
  void flush() {
    if (!buffer_.empty()) write(buffer_);
    buffer_.clear();
  }
  void write(std::span<const std::byte> piece) {
    seal_.crc32c = io::extend_crc32c(seal_.crc32c, piece);
    seal_.bytes += piece.size();
    file_.write(piece);
  }

  io::WritableFile& file_;
  std::vector<std::byte> buffer_;
  Seal seal_;
};

/// Reads one file to its end, and computes its checksum.
class SealingReader {
 public:
  SealingReader(const io::FileSystem& files, const io::Path& path)
      : name_(path.string()), size_(size_of(files, path)), file_(files.open(path)) {}

  template <class... T>
  [[noreturn]] void fail(const T&... pieces) const {
    throw Error(ErrorCode::kDataLoss, name_, ": not a valid safetensors file: ", pieces...);
  }
  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  const Seal& seal() const { return seal_; }

  void fill(std::span<std::byte> buffer) {
    while (!buffer.empty()) {
      const auto piece = buffer.first(std::min(buffer.size(), kPiece));
      if (file_->read(piece) != piece.size()) fail("it ended while it was being read");
      seal_.crc32c = io::extend_crc32c(seal_.crc32c, piece);
      seal_.bytes += piece.size();
      buffer = buffer.subspan(piece.size());
    }
  }

 private:
  static std::uint64_t size_of(const io::FileSystem& files, const io::Path& path) {
    const auto info = files.info(path);
    return info ? info->size : 0;  // `open` reports a missing file
  }

  std::string name_;
  std::uint64_t size_;
  std::unique_ptr<io::ReadableFile> file_;
  Seal seal_;
};

std::string read_header(SealingReader& reader) {
  std::string head(std::min<std::uint64_t>(reader.size(), io::kSafetensorsLengthBytes), '\0');
  reader.fill(std::as_writable_bytes(std::span(head)));
  const auto length = io::safetensors_header_length(head, reader.size(), reader.name());
  std::string text(length, '\0');
  reader.fill(std::as_writable_bytes(std::span(text)));
  return text;
}

at::Tensor read_tensor(const io::TensorEntry& entry, SealingReader& reader) {
  const at::ScalarType type = device::file_dtype_named(entry.dtype.name)->type;
  auto tensor = at::empty(entry.shape, at::TensorOptions().dtype(type));
  if (tensor.numel() == 0) return tensor;
  const std::span bytes(static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes());
  reader.fill(bytes);
  const bool is_bool = type == at::kBool;
  if (is_bool && std::any_of(bytes.begin(), bytes.end(),
                             [](std::byte b) { return std::to_integer<unsigned>(b) > 1; })) {
    reader.fail("tensor ", base::quoted(entry.name),
                ": a byte of a BOOL tensor is neither 0 nor 1");
  }
  return tensor;
}

}  // namespace

const at::Tensor& SafetensorsFile::at(std::string_view name) const {
  for (const auto& each : tensors) {
    if (each.name == name) return each.tensor;
  }
  std::vector<std::string> names;
  for (const auto& each : tensors) names.push_back(each.name);
  throw Error(ErrorCode::kNotFound, "no tensor is called ", base::quoted(name),
              " among the file's ", names.size(), base::did_you_mean(name, names));
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

Seal stream_safetensors(io::WritableFile& file, std::span<const NamedTensor> tensors,
                        const std::map<std::string, std::string>& metadata) {
  check_unique(tensors);
  const auto order = data_order(tensors);
  io::SafetensorsHeader header{.tensors = {}, .metadata = metadata};
  std::uint64_t position = 0;
  for (const auto* each : order) {
    auto entry = entry_of(*each);
    entry.begin = position;
    position += static_cast<std::uint64_t>(each->tensor.numel() * entry.dtype.bytes);
    entry.end = position;
    header.tensors.push_back(std::move(entry));
  }
  const auto text = io::write_safetensors_header(header);
  const std::uint64_t length = text.size();
  SealingWriter writer(file);
  writer.append(std::as_bytes(std::span(&length, 1)));
  writer.append(io::as_bytes(text));
  for (const auto* each : order) {
    const auto plain = each->tensor.detach().cpu().resolve_neg().contiguous();
    if (plain.numel() == 0) continue;
    writer.append({static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()});
  }
  return writer.finish();
}

SafetensorsFile read_safetensors(const io::FileSystem& files, const io::Path& path,
                                 const std::optional<Seal>& expected) {
  SealingReader reader(files, path);
  if (expected && reader.size() != expected->bytes) {
    reader.fail("it has ", reader.size(), " bytes, expected ", expected->bytes);
  }
  const auto text = read_header(reader);
  const auto data_bytes = reader.size() - io::kSafetensorsLengthBytes - text.size();
  auto header = io::parse_safetensors_header(text, data_bytes, reader.name());
  SafetensorsFile result{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const auto& each : header.tensors) {
    result.tensors.push_back({each.name, read_tensor(each, reader)});
  }
  if (expected && reader.seal() != *expected) {
    reader.fail("its CRC-32C is ", to_hex(reader.seal().crc32c), ", expected ",
                to_hex(expected->crc32c));
  }
  std::sort(result.tensors.begin(), result.tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  return result;
}

Seal seal_of(const io::FileSystem& files, const io::Path& path) {
  const auto file = files.open(path);
  std::vector<std::byte> piece(kPiece);
  Seal seal;
  while (const auto count = file->read(piece)) {
    seal.crc32c = io::extend_crc32c(seal.crc32c, std::span(piece).first(count));
    seal.bytes += count;
  }
  return seal;
}

std::string to_hex(std::uint32_t crc32c) {
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(crc32c >> shift) & 15];
  return text;
}

}  // namespace brigade::checkpoint
