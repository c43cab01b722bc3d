#include "brigade/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/safetensors_header.h"
#include "brigade/io/atomic_write.h"

namespace brigade::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr std::size_t kLengthBytes = 8;
// The limit of the format's own reader.
constexpr std::uint64_t kLongestHeader = 100'000'000;

template <class... T>
[[noreturn]] void refuse(const T&... pieces) {
  throw Error(ErrorCode::kInvalidArgument, base::str_cat("save_safetensors: ", pieces...));
}

TensorEntry entry_of(const NamedTensor& named) {
  const auto& tensor = named.tensor;
  if (named.name == "__metadata__") refuse("a tensor cannot be called '__metadata__'");
  if (!tensor.defined()) refuse("tensor '", named.name, "' is undefined");
  const auto dtype = dtype_of(tensor.scalar_type());
  if (tensor.layout() != at::kStrided || !dtype) {
    refuse("tensor '", named.name, "' is ", at::toString(tensor.scalar_type()), ", ",
           tensor.layout(), "; the format holds dense tensors of ", shared_dtypes());
  }
  return {.name = named.name, .dtype = *dtype, .shape = tensor.sizes().vec()};
}

/// The tensors in the order of their data: larger elements first, so that each lies aligned; then
/// by name.
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
  if (twice != names.end()) refuse("two tensors are called '", *twice, "'");
}

void append(std::string& bytes, const void* from, std::size_t count) {
  bytes.append(static_cast<const char*>(from), count);
}

std::uint64_t read_length(const std::string& bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return length;
}

/// The part of the file that is the header, once its length is known to lie within.
std::string_view header_text(const std::string& bytes, std::string_view file) {
  const auto fail = [&](const auto&... pieces) {
    throw Error(ErrorCode::kDataLoss,
                base::str_cat(file, ": not a sound safetensors file: ", pieces...));
  };
  if (bytes.size() < kLengthBytes) {
    fail("it has ", bytes.size(), " bytes, fewer than the header's length takes");
  }
  const auto length = read_length(bytes);
  if (length > kLongestHeader || length > bytes.size() - kLengthBytes) {
    fail("the header's length, ", length, ", does not fit in the file's ", bytes.size(), " bytes");
  }
  return std::string_view(bytes).substr(kLengthBytes, length);
}

at::Tensor load(const TensorEntry& entry, std::string_view data, std::string_view file) {
  const auto bytes = data.substr(entry.begin, entry.end - entry.begin);
  const bool is_bool = entry.dtype.type == at::kBool;
  if (is_bool && std::any_of(bytes.begin(), bytes.end(), [](char c) { return c != 0 && c != 1; })) {
    throw Error(ErrorCode::kDataLoss,
                base::str_cat(file, ": not a sound safetensors file: tensor '", entry.name,
                              "': a byte of a BOOL tensor is neither 0 nor 1"));
  }
  auto tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.dtype.type));
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace

const at::Tensor& SafetensorsFile::at(std::string_view name) const {
  for (const auto& each : tensors) {
    if (each.name == name) return each.tensor;
  }
  std::vector<std::string> names;
  for (const auto& each : tensors) names.push_back(each.name);
  const auto nearest = base::nearest(name, names);
  throw Error(ErrorCode::kNotFound,
              base::str_cat("no tensor is called '", name, "' among the file's ", names.size(),
                            nearest ? base::str_cat("; did you mean '", *nearest, "'?") : ""));
}

void save_safetensors(io::FileSystem& files, const io::Path& path,
                      std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata) {
  check_unique(tensors);
  const auto order = data_order(tensors);
  SafetensorsHeader header{.tensors = {}, .metadata = metadata};
  std::uint64_t position = 0;
  for (const auto* each : order) {
    auto entry = entry_of(*each);
    entry.begin = position;
    position += static_cast<std::uint64_t>(each->tensor.numel() * entry.dtype.bytes);
    entry.end = position;
    header.tensors.push_back(std::move(entry));
  }
  const auto text = write_safetensors_header(header);
  const std::uint64_t length = text.size();
  std::string bytes;
  bytes.reserve(kLengthBytes + text.size() + position);
  append(bytes, &length, sizeof length);
  bytes += text;
  for (const auto* each : order) {
    const auto plain = each->tensor.detach().cpu().resolve_neg().contiguous();
    if (plain.numel() > 0) append(bytes, plain.const_data_ptr(), plain.nbytes());
  }
  io::atomic_write(files, path, bytes);
}

SafetensorsFile read_safetensors(const io::FileSystem& files, const io::Path& path) {
  const auto bytes = files.read(path);
  const auto file = path.string();
  const auto text = header_text(bytes, file);
  const auto data = std::string_view(bytes).substr(kLengthBytes + text.size());
  auto header = parse_safetensors_header(text, data.size(), file);
  SafetensorsFile result{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const auto& each : header.tensors) {
    result.tensors.push_back({each.name, load(each, data, file)});
  }
  std::sort(result.tensors.begin(), result.tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  return result;
}

}  // namespace brigade::checkpoint
