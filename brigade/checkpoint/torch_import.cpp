#include "brigade/checkpoint/torch_import.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <unordered_map>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/pickle.h"
#include "brigade/checkpoint/zip_reader.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/safetensors_header.h"

namespace brigade::checkpoint {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kZipMark = "PK\3\4";
constexpr std::string_view kPickleName = "data.pkl";
// Shared values are visited once per path to them: a few bytes can name a billion tensors.
constexpr std::size_t kMostValues = 1'000'000;
constexpr std::size_t kDeepest = 100;
constexpr std::size_t kMostDimensions = 64;
// A nested value's name includes the names of its parents. In a normal file, all names together
// take a few times the bytes of the pickle.
constexpr std::size_t kMostNameBytesPerByte = 64;
constexpr std::size_t kNameBytesForAll = std::size_t{1} << 20;

struct StorageType {
  std::string_view name;
  at::ScalarType type;
};
constexpr std::array<StorageType, 10> kStorageTypes{{
    {"DoubleStorage", at::kDouble},
    {"FloatStorage", at::kFloat},
    {"HalfStorage", at::kHalf},
    {"BFloat16Storage", at::kBFloat16},
    {"LongStorage", at::kLong},
    {"IntStorage", at::kInt},
    {"ShortStorage", at::kShort},
    {"CharStorage", at::kChar},
    {"ByteStorage", at::kByte},
    {"BoolStorage", at::kBool},
}};

class Importer {
 public:
  Importer(const ZipReader& zip, std::string folder, std::string_view pickle, std::string_view file)
      : zip_(zip),
        folder_(std::move(folder)),
        pickle_(parse_pickle(pickle, file)),
        most_name_bytes_(kMostNameBytesPerByte * pickle.size() + kNameBytesForAll),
        file_(file) {}

  TorchFile run() {
    visit(pickle_.root, "", 0);
    for (auto& [name, tensor] : tensors_) result_.tensors.push_back({name, std::move(tensor)});
    return std::move(result_);
  }

 private:
  template <class... T>
  [[noreturn]] void fail(const T&... pieces) const {
    throw Error(ErrorCode::kDataLoss, file_, ": ", pieces...);
  }

  void visit(PickleIndex index, const std::string& name, std::size_t depth) {
    if (++visited_ > kMostValues) fail("it holds more than ", kMostValues, " values");
    if (depth > kDeepest) fail(base::quoted(name), " is nested too deeply");
    const PickleValue& value = pickle_.at(index);
    switch (value.kind) {
      case Kind::kDict:
        for (std::size_t i = 0; i < value.items.size(); i += 2) {
          visit(value.items[i + 1], below(name, key_of(value.items[i])), depth + 1);
        }
        return;
      case Kind::kList:
      case Kind::kTuple:
        for (std::size_t i = 0; i < value.items.size(); ++i) {
          visit(value.items[i], below(name, std::to_string(i)), depth + 1);
        }
        return;
      case Kind::kObject:
        for (const PickleIndex attributes : value.items) visit(attributes, name, depth + 1);
        return;
      case Kind::kTensor:
        return add(name.empty() ? "tensor" : name, shared_tensor(index, name));
      default:
        result_.left_out.push_back(name);
    }
  }

  std::string below(const std::string& name, const std::string& key) {
    name_bytes_ += name.size() + key.size() + 1;
    if (name_bytes_ > most_name_bytes_) {
      fail("the names of its values take more than ", most_name_bytes_, " bytes");
    }
    return name.empty() ? key : name + "." + key;
  }
  std::string key_of(PickleIndex index) const {
    const PickleValue& key = pickle_.at(index);
    if (key.kind == Kind::kString) return std::string(key.text);
    if (key.kind == Kind::kInt) return std::to_string(key.number);
    fail("a dict's key is neither text nor a whole number");
  }
  void add(const std::string& name, at::Tensor tensor) {
    if (!tensors_.emplace(name, std::move(tensor)).second) {
      fail("two tensors are called ", base::quoted(name));
    }
  }

  // A repeated value is the same tensor.
  at::Tensor shared_tensor(PickleIndex index, const std::string& name) {
    const auto known = made_.find(index);
    if (known != made_.end()) return known->second;
    return made_[index] = tensor_of(pickle_.at(index), name);
  }

  // The arguments of _rebuild_tensor_v2: storage, offset, size, stride, requires_grad, hooks.
  at::Tensor tensor_of(const PickleValue& value, const std::string& name) {
    const at::Tensor storage = storage_of(value.items[0], name);
    const std::int64_t offset = integer(value.items[1], name);
    const std::vector<std::int64_t> sizes = integers(value.items[2], name);
    const std::vector<std::int64_t> strides = integers(value.items[3], name);
    if (sizes.size() != strides.size()) {
      fail("tensor ", base::quoted(name), " has ", sizes.size(), " dimensions and ", strides.size(),
           " strides");
    }
    check_extent(offset, sizes, strides, storage.numel(), name);
    return storage.as_strided(sizes, strides, offset);
  }

  void check_extent(std::int64_t offset, const std::vector<std::int64_t>& sizes,
                    const std::vector<std::int64_t>& strides, std::int64_t available,
                    const std::string& name) const {
    std::int64_t count = 1;
    std::int64_t last = offset;  // the index of the last element
    bool is_empty = false;
    bool overflows = offset > available;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      is_empty |= sizes[i] == 0;
      if (sizes[i] == 0) continue;
      std::int64_t reach = 0;
      overflows |= __builtin_mul_overflow(count, sizes[i], &count);
      overflows |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &reach);
      overflows |= __builtin_add_overflow(last, reach, &last);
    }
    if (overflows || (!is_empty && last >= available)) {
      fail("tensor ", base::quoted(name), " reaches beyond its storage of ", available,
           " elements");
    }
    // An expanded tensor would be far larger when it is copied.
    if (!is_empty && count > available) {
      fail("tensor ", base::quoted(name), " has ", count, " elements in a storage of ", available,
           "; save it after contiguous()");
    }
  }

  // ('storage', torch.FloatStorage, key, location, elements)
  at::Tensor storage_of(PickleIndex index, const std::string& name) {
    const PickleValue& value = pickle_.at(index);
    if (value.kind != Kind::kStorage || value.items.size() != 5 ||
        pickle_.at(value.items[0]).text != "storage" ||
        pickle_.at(value.items[1]).kind != Kind::kGlobal ||
        pickle_.at(value.items[2]).kind != Kind::kString) {
      fail("tensor ", base::quoted(name), " has no storage as PyTorch describes it");
    }
    const at::ScalarType type = type_of(pickle_.at(value.items[1]).text, name);
    const std::string key(pickle_.at(value.items[2]).text);
    const auto known = storages_.find(key);
    if (known == storages_.end()) {
      return storages_[key] = read_storage(key, type, integer(value.items[4], name));
    }
    if (known->second.scalar_type() != type)
      fail("the storage ", base::quoted(key), " has two dtypes");
    return known->second;
  }

  at::ScalarType type_of(std::string_view storage_type, const std::string& name) const {
    for (const StorageType& each : kStorageTypes) {
      if (each.name == storage_type) return each.type;
    }
    throw Error(ErrorCode::kUnimplemented, file_, ": tensor ", base::quoted(name), " is in a ",
                storage_type, "; known are ", io::tensor_dtypes());
  }

  at::Tensor read_storage(const std::string& key, at::ScalarType type,
                          std::int64_t elements) const {
    const std::string_view bytes = zip_.read(base::str_cat(folder_, "data/", key));
    const auto item = static_cast<std::size_t>(device::file_dtype_of(type)->bytes);
    if (bytes.size() % item != 0 || !std::cmp_equal(bytes.size() / item, elements)) {
      fail("the storage ", base::quoted(key), " has ", bytes.size(), " bytes for ", elements,
           " elements");
    }
    if (type == at::kBool &&
        std::any_of(bytes.begin(), bytes.end(), [](char c) { return c != 0 && c != 1; })) {
      fail("a byte of the bool storage ", base::quoted(key), " is neither 0 nor 1");
    }
    at::Tensor storage = at::empty({elements}, at::TensorOptions().dtype(type));
    if (!bytes.empty()) std::memcpy(storage.mutable_data_ptr(), bytes.data(), bytes.size());
    return storage;
  }

  std::int64_t integer(PickleIndex index, const std::string& name) const {
    const PickleValue& value = pickle_.at(index);
    if (value.kind != Kind::kInt || value.number < 0) {
      fail("tensor ", base::quoted(name), ": a size is not a whole number of at least 0");
    }
    return value.number;
  }
  std::vector<std::int64_t> integers(PickleIndex index, const std::string& name) const {
    const PickleValue& value = pickle_.at(index);
    if (value.kind != Kind::kTuple && value.kind != Kind::kList) {
      fail("tensor ", base::quoted(name), ": a shape is not a tuple");
    }
    if (value.items.size() > kMostDimensions) {
      fail("tensor ", base::quoted(name), ": a shape has ", value.items.size(), " numbers");
    }
    std::vector<std::int64_t> result;
    for (const PickleIndex each : value.items) result.push_back(integer(each, name));
    return result;
  }

  const ZipReader& zip_;
  const std::string folder_;  // of the archive, with its slash
  const Pickle pickle_;
  const std::size_t most_name_bytes_;
  std::string_view file_;
  std::map<std::string, at::Tensor> storages_;  // [key]
  std::unordered_map<PickleIndex, at::Tensor> made_;
  std::map<std::string, at::Tensor> tensors_;
  std::size_t visited_ = 0;
  std::size_t name_bytes_ = 0;
  TorchFile result_;
};

// All entries are in one folder, named after the saved file.
std::string folder_of(const ZipReader& zip, std::string_view file) {
  for (const auto& [name, entry] : zip.entries()) {
    const auto slash = name.find('/');
    if (slash != std::string::npos && std::string_view(name).substr(slash + 1) == kPickleName) {
      return name.substr(0, slash + 1);
    }
  }
  throw Error(ErrorCode::kDataLoss, file,
              ": a zip file, but not one of torch.save or torch::save: it has no data.pkl");
}

}  // namespace

TorchFile read_torch(const io::FileSystem& files, const io::Path& path) {
  const std::string bytes = files.read(path);
  const std::string file = path.string();
  if (!bytes.starts_with(kZipMark)) {
    throw Error(
        bytes.starts_with("\x80\x02") ? ErrorCode::kUnimplemented : ErrorCode::kDataLoss, file,
        ": not a zip file as torch.save writes it since PyTorch 1.6; load and save it again there");
  }
  const ZipReader zip(bytes, file);
  const std::string folder = folder_of(zip, file);
  const std::string order = folder + "byteorder";
  if (zip.has(order) && zip.read(order) != "little") {
    throw Error(ErrorCode::kUnimplemented, file, ": its byte order is ", zip.read(order),
                "; expected little");
  }
  const std::string_view pickle = zip.read(base::str_cat(folder, kPickleName));
  return Importer(zip, folder, pickle, file).run();
}

bool is_torch_file(const io::FileSystem& files, const io::Path& path) {
  std::array<std::byte, kZipMark.size()> begin{};
  const auto count = files.open(path)->read(begin);
  return count == begin.size() && std::memcmp(begin.data(), kZipMark.data(), count) == 0;
}

}  // namespace brigade::checkpoint
