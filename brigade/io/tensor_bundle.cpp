#include "brigade/io/tensor_bundle.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/proto/tensor_bundle.pb.h"
#include "brigade/io/sstable_reader.h"
#include "brigade/io/tensor_slice_key.h"

namespace brigade::io {
namespace {

constexpr int kBundleLittleEndian = 0;
constexpr int kBundleVersion = 1;  // the newest format
constexpr std::size_t kMostNameBytesPerByte = 16;
constexpr int kMostBundleDimensions = 64;  // as in safetensors
// Far above any model: what is parsed takes up to about 60 times its bytes.
constexpr std::size_t kMostBundleEntries = 1'000'000;
constexpr std::size_t kMostEntryBytes = std::size_t{1} << 20;

struct BundleDtype {
  int number;
  std::string_view name;
  std::string_view safetensors = {};
};
constexpr std::array<BundleDtype, 23> kBundleDtypes{
    {{1, "float32", "F32"}, {2, "float64", "F64"},    {3, "int32", "I32"},    {4, "uint8", "U8"},
     {5, "int16", "I16"},   {6, "int8", "I8"},        {7, "string"},          {8, "complex64"},
     {9, "int64", "I64"},   {10, "bool", "BOOL"},     {11, "qint8"},          {12, "quint8"},
     {13, "qint32"},        {14, "bfloat16", "BF16"}, {15, "qint16"},         {16, "quint16"},
     {17, "uint16"},        {18, "complex128"},       {19, "float16", "F16"}, {20, "resource"},
     {21, "variant"},       {22, "uint32"},           {23, "uint64"}}};

class IndexParser {
 public:
  IndexParser(std::string_view table, std::string_view file) : table_(table), file_(file) {}

  TensorBundleIndex parse() {
    read_sstable(table_, file_, [this](const SstableEntry& entry) { read(entry); });
    if (!has_header_) fail("it has no header");
    TensorBundleIndex index{.num_shards = num_shards_, .tensors = {}};
    for (const auto& [name, stored] : tensors_) index.tensors.push_back(tensor(name, stored));
    return index;
  }

 private:
  struct Slice {
    std::int64_t axis = 0;
    TensorBundlePart part;
    std::string key;
  };
  /// An entry in the table's bytes.
  struct Stored {
    std::string_view value;
    std::uint64_t offset = 0;
  };
  struct Entry {
    proto::BundleEntryProto proto;
    std::uint64_t offset = 0;
  };
  using Entries = std::map<std::string, Stored, std::less<>>;

  template <class... T>
  [[noreturn]] void fail(const T&... pieces) const {
    throw Error(ErrorCode::kDataLoss, file_, ": not a valid index of a checkpoint: ", pieces...);
  }
  template <class... T>
  [[noreturn]] void refuse(const T&... pieces) const {
    throw Error(ErrorCode::kUnimplemented, file_, ": ", pieces...);
  }
  template <class... T>
  [[noreturn]] void fail_in(std::string_view name, const Entry& entry, const T&... pieces) const {
    fail("tensor ", base::quoted(name), ": ", pieces..., " (the entry at byte ", entry.offset, ")");
  }

  void read(const SstableEntry& entry) {
    if (entry.key.empty()) return read_header(entry.value);
    if (!has_header_) fail("it has no header");
    name_bytes_ += entry.key.size();
    if (name_bytes_ > kMostNameBytesPerByte * table_.size()) {
      fail("the names take more than ", kMostNameBytesPerByte, " times its ", table_.size(),
           " bytes");
    }
    if (tensors_.size() + slices_.size() == kMostBundleEntries) {
      fail("it has more than ", kMostBundleEntries, " entries");
    }
    const bool is_slice = entry.key.front() == '\0';
    if (!is_slice && !base::is_utf8(entry.key)) {
      fail("the name ", base::quoted(entry.key), " is not UTF-8 (the entry at byte ", entry.offset,
           ")");
    }
    (is_slice ? slices_ : tensors_).emplace(entry.key, Stored{entry.value, entry.offset});
  }

  Entry parsed(std::string_view name, const Stored& stored) const {
    Entry entry{.proto = {}, .offset = stored.offset};
    const std::string_view value = stored.value;
    if (value.size() > kMostEntryBytes ||
        !entry.proto.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      fail_in(name, entry, "it is not a BundleEntryProto of at most ", kMostEntryBytes, " bytes");
    }
    return entry;
  }

  void read_header(std::string_view value) {
    // In checkpoints of version 1 the first field is a message, not a number.
    if (value.starts_with('\x0a')) {
      refuse(
          "it is a checkpoint of TensorFlow's format V1; load it there, and save it with "
          "tf.compat.v1.train.Saver(write_version=tf.compat.v1.train.SaverDef.V2)");
    }
    proto::BundleHeaderProto header;
    if (value.size() > kMostEntryBytes ||
        !header.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      fail("its header is not a BundleHeaderProto");
    }
    if (header.version().min_consumer() > kBundleVersion) {
      refuse("it needs a reader of version ", header.version().min_consumer(), "; this one reads ",
             kBundleVersion);
    }
    if (header.endianness() != kBundleLittleEndian) {
      refuse("its data is big-endian; expected little-endian: load and save it on such a machine");
    }
    if (header.num_shards() < 1) fail("its header names ", header.num_shards(), " data files");
    num_shards_ = header.num_shards();
    has_header_ = true;
  }

  TensorBundleEntry tensor(const std::string& name, const Stored& stored) const {
    const Entry entry = parsed(name, stored);
    TensorBundleEntry result{.name = name,
                             .dtype_name = base::str_cat("dtype ", entry.proto.dtype()),
                             .dtype = {},
                             .shape = shape_of(name, entry),
                             .parts = {}};
    const auto dtype = std::ranges::find(kBundleDtypes, entry.proto.dtype(), &BundleDtype::number);
    if (dtype != kBundleDtypes.end()) {
      result.dtype_name = dtype->name;
      result.dtype = tensor_dtype_named(dtype->safetensors);
    }
    if (entry.proto.slices().empty()) {
      const std::int64_t length = result.shape.empty() ? 1 : result.shape.front();
      result.parts.push_back(part_of(name, entry, 0, length));
      check_bytes(result, result.shape, result.parts.front(), entry);
    } else {
      add_slices(result, entry);
    }
    return result;
  }

  std::vector<std::int64_t> shape_of(std::string_view name, const Entry& entry) const {
    const proto::TensorShapeProto& proto = entry.proto.shape();
    if (proto.unknown_rank() || proto.dim_size() > kMostBundleDimensions) {
      fail_in(name, entry, "its shape is not a list of at most ", kMostBundleDimensions,
              " numbers");
    }
    std::vector<std::int64_t> shape;
    for (const auto& dimension : proto.dim()) shape.push_back(dimension.size());
    // Of any dtype: what is listed must be a shape.
    if (!tensor_bytes(shape, 1)) {
      fail_in(name, entry, "its shape [", base::join(shape, ", "), "] is negative or too large");
    }
    return shape;
  }

  TensorBundlePart part_of(std::string_view name, const Entry& entry, std::int64_t start,
                           std::int64_t length) const {
    const proto::BundleEntryProto& proto = entry.proto;
    if (proto.shard_id() < 0 || proto.shard_id() >= num_shards_) {
      fail_in(name, entry, "it is in the data file ", proto.shard_id(), " of ", num_shards_);
    }
    if (proto.offset() < 0 || proto.size() < 0) {
      fail_in(name, entry, "it has ", proto.size(), " bytes at ", proto.offset());
    }
    return {.shard = proto.shard_id(),
            .offset = static_cast<std::uint64_t>(proto.offset()),
            .bytes = static_cast<std::uint64_t>(proto.size()),
            .masked_crc32c = proto.crc32c(),
            .start = start,
            .length = length};
  }

  void check_bytes(const TensorBundleEntry& tensor, const std::vector<std::int64_t>& shape,
                   const TensorBundlePart& part, const Entry& entry) const {
    if (!tensor.dtype) return;
    const auto expected = tensor_bytes(shape, tensor.dtype->bytes);
    if (expected == part.bytes) return;
    fail_in(tensor.name, entry, "shape [", base::join(shape, ", "), "] of ", tensor.dtype_name,
            " takes ", expected ? std::to_string(*expected) : "too many", " bytes, and it has ",
            part.bytes);
  }

  void add_slices(TensorBundleEntry& tensor, const Entry& entry) const {
    if (std::cmp_greater(entry.proto.slices_size(), slices_.size())) {
      fail_in(tensor.name, entry, "it has ", entry.proto.slices_size(), " parts, and there are ",
              slices_.size(), " in all");
    }
    std::vector<Slice> slices;
    for (const auto& proto : entry.proto.slices()) {
      slices.push_back(slice_of(tensor, proto, entry));
    }
    const bool is_along_one = std::ranges::all_of(
        slices, [&](const Slice& each) { return each.axis == slices.front().axis; });
    if (!is_along_one) refuse_two_axes(tensor.name);
    std::ranges::sort(slices, {}, [](const Slice& each) { return each.part.start; });
    tensor.axis = slices.front().axis;
    std::int64_t end = 0;
    for (const Slice& each : slices) {
      if (each.part.start != end) {
        fail_in(tensor.name, entry, "its parts leave a hole or overlap at ", end,
                " of the dimension ", tensor.axis);
      }
      end += each.part.length;
      tensor.parts.push_back(stored_part(tensor, each));
    }
    if (!tensor.shape.empty() && end != tensor.shape[static_cast<std::size_t>(tensor.axis)]) {
      fail_in(tensor.name, entry, "its parts end at ", end, " of the dimension ", tensor.axis);
    }
    if (tensor.shape.empty() && slices.size() != 1) fail_in(tensor.name, entry, "it has parts");
  }

  [[noreturn]] void refuse_two_axes(std::string_view name) const {
    refuse("tensor ", base::quoted(name),
           " is partitioned along several dimensions; read are parts along one: load and save it "
           "in TensorFlow without a partitioner");
  }

  Slice slice_of(const TensorBundleEntry& tensor, const proto::TensorSliceProto& proto,
                 const Entry& entry) const {
    const std::vector<std::int64_t>& shape = tensor.shape;
    if (std::cmp_not_equal(proto.extent_size(), shape.size())) {
      fail_in(tensor.name, entry, "a part has ", proto.extent_size(), " dimensions, and it has ",
              shape.size());
    }
    Slice slice{
        .axis = 0, .part = {.start = 0, .length = shape.empty() ? 1 : shape.front()}, .key = {}};
    std::vector<SliceExtent> extents;
    bool is_cut = false;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto& extent = proto.extent(static_cast<int>(i));
      extents.push_back({.start = extent.start(),
                         .length = extent.has_length() ? extent.length() : SliceExtent::kWhole});
      if (!extent.has_length() || (extent.start() == 0 && extent.length() == shape[i])) continue;
      if (extent.start() < 0 || extent.length() < 1 || extent.start() > shape[i] ||
          extent.length() > shape[i] - extent.start()) {
        fail_in(tensor.name, entry, "a part from ", extent.start(), " of length ", extent.length(),
                " is not within a dimension of ", shape[i]);
      }
      if (std::exchange(is_cut, true)) refuse_two_axes(tensor.name);
      slice.axis = static_cast<std::int64_t>(i);
      slice.part.start = extent.start();
      slice.part.length = extent.length();
    }
    slice.key = tensor_slice_key(tensor.name, extents);
    return slice;
  }

  TensorBundlePart stored_part(const TensorBundleEntry& tensor, const Slice& slice) const {
    const auto found = slices_.find(slice.key);
    if (found == slices_.end()) {
      fail("tensor ", base::quoted(tensor.name), ": the part from ", slice.part.start,
           " of length ", slice.part.length, " has no entry");
    }
    const Entry entry = parsed(tensor.name, found->second);
    std::vector<std::int64_t> shape = tensor.shape;
    if (!shape.empty()) shape[static_cast<std::size_t>(tensor.axis)] = slice.part.length;
    if (!entry.proto.slices().empty()) fail_in(tensor.name, entry, "a part has parts");
    if (shape_of(tensor.name, entry) != shape) {
      fail_in(tensor.name, entry, "a part of shape [", base::join(shape, ", "),
              "] has another shape in its entry");
    }
    const TensorBundlePart part = part_of(tensor.name, entry, slice.part.start, slice.part.length);
    check_bytes(tensor, shape, part, entry);
    return part;
  }

  std::string_view table_;
  std::string_view file_;
  bool has_header_ = false;
  int num_shards_ = 0;
  std::size_t name_bytes_ = 0;
  Entries tensors_;  // [name]
  Entries slices_;   // [key]
};

struct PartInFile {
  const TensorBundlePart* part;
  const TensorBundleEntry* tensor;
};

void check_file(std::string_view name, std::uint64_t size, std::vector<PartInFile> parts) {
  const auto fail = [&](const PartInFile& each, std::string_view why) {
    throw Error(ErrorCode::kDataLoss, name, ": ", each.part->bytes, " bytes at ", each.part->offset,
                " of tensor ", base::quoted(each.tensor->name), " ", why);
  };
  std::ranges::sort(parts, {}, [](const PartInFile& each) {
    return std::pair(each.part->offset, each.part->bytes);
  });
  std::uint64_t end = 0;
  for (const PartInFile& each : parts) {
    const std::uint64_t offset = each.part->offset;
    const std::uint64_t bytes = each.part->bytes;
    if (offset > size || bytes > size - offset) {
      fail(each, base::str_cat("reach beyond the file's ", size, " bytes (was it cut short?)"));
    }
    if (offset < end) fail(each, "belong to another tensor, too");
    end = offset + bytes;
  }
}

}  // namespace

TensorBundleIndex parse_tensor_bundle_index(std::string_view table, std::string_view file) {
  return IndexParser(table, file).parse();
}

std::string tensor_bundle_shard_name(std::string_view prefix, int shard, int num_shards) {
  constexpr std::size_t kDigits = 5;
  const auto padded = [](int number) {
    const std::string digits = std::to_string(number);
    return digits.size() < kDigits ? std::string(kDigits - digits.size(), '0') + digits : digits;
  };
  return base::str_cat(prefix, ".data-", padded(shard), "-of-", padded(num_shards));
}

void check_tensor_bundle_shards(const TensorBundleIndex& index, std::string_view prefix,
                                const std::function<std::uint64_t(int shard)>& bytes_of) {
  std::map<int, std::vector<PartInFile>> shards;
  for (const TensorBundleEntry& each : index.tensors) {
    for (const TensorBundlePart& part : each.parts) shards[part.shard].push_back({&part, &each});
  }
  for (auto& [shard, parts] : shards) {
    check_file(tensor_bundle_shard_name(prefix, shard, index.num_shards), bytes_of(shard),
               std::move(parts));
  }
}

}  // namespace brigade::io
