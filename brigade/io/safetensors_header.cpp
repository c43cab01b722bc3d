#include "brigade/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/record_framing.h"
#include "brigade/io/strict_json.h"

namespace brigade::io {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
// Header, tensor, shape: the maximum depth of the format. The limit protects against deeply nested
// files.
constexpr std::size_t kDeepest = 3;
// Far above any model; with more, libtorch would fail later and less clearly.
constexpr std::size_t kMostDimensions = 64;

// The limit of the reference reader of the format.
constexpr std::uint64_t kLongestHeader = 100'000'000;

constexpr std::array<TensorDtype, 15> kDtypes{{{"F64", 8},
                                               {"F32", 4},
                                               {"F16", 2},
                                               {"BF16", 2},
                                               {"I64", 8},
                                               {"I32", 4},
                                               {"I16", 2},
                                               {"I8", 1},
                                               {"U8", 1},
                                               {"BOOL", 1},
                                               {"U64", 8},
                                               {"U32", 4},
                                               {"U16", 2},
                                               {"F8_E4M3", 1},
                                               {"F8_E5M2", 1}}};
// The first ones, which libtorch has too.
constexpr std::span kTensorDtypes = std::span(kDtypes).first<10>();

template <class Dtypes>
std::optional<TensorDtype> dtype_among(const Dtypes& dtypes, std::string_view name) {
  const auto found = std::ranges::find(dtypes, name, &TensorDtype::name);
  return found == dtypes.end() ? std::nullopt : std::optional(*found);
}

template <class... T>
[[noreturn]] void fail_in(std::string_view file, const T&... why) {
  throw Error(ErrorCode::kDataLoss, file, ": not a valid safetensors file: ", why...);
}

/// Parses one header. Messages name the file.
class Parser {
 public:
  Parser(std::uint64_t data_bytes, std::string_view file) : data_bytes_(data_bytes), file_(file) {}

  SafetensorsHeader parse(std::string_view text) const {
    const json root = parse_json(text);
    if (!root.is_object()) fail("the header is not a JSON object");
    SafetensorsHeader header;
    for (const auto& [name, value] : root.items()) {
      if (name == kMetadata) {
        header.metadata = metadata(value);
      } else {
        header.tensors.push_back(entry(name, value));
      }
    }
    std::sort(header.tensors.begin(), header.tensors.end(),
              [](const TensorEntry& a, const TensorEntry& b) {
                return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
              });
    check_coverage(header.tensors);
    return header;
  }

 private:
  template <class... T>
  [[noreturn]] void fail(const T&... pieces) const {
    fail_in(file_, pieces...);
  }

  json parse_json(std::string_view text) const {
    return parse_strict_json(text, kDeepest,
                             [this](const std::string& why) { fail("the header: ", why); });
  }

  std::map<std::string, std::string> metadata(const json& value) const {
    if (!value.is_object()) fail(kMetadata, " is not an object");
    std::map<std::string, std::string> result;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail("the metadata ", base::quoted(key), " is not a string");
      result[key] = text.get<std::string>();
    }
    return result;
  }

  TensorEntry entry(const std::string& name, const json& value) const {
    const bool is_entry = value.is_object() && value.size() == 3 && value.contains("dtype") &&
                          value.contains("shape") && value.contains("data_offsets");
    if (!is_entry)
      fail("tensor ", base::quoted(name), ": expected exactly dtype, shape and data_offsets");
    TensorEntry result{.name = name, .dtype = dtype(name, value["dtype"]), .shape = {}};
    result.shape = shape(name, value["shape"]);
    const auto& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      fail("tensor ", base::quoted(name), ": data_offsets are not two numbers");
    }
    result.begin = offsets[0].get<std::uint64_t>();
    result.end = offsets[1].get<std::uint64_t>();
    check_extent(result);
    return result;
  }

  TensorDtype dtype(const std::string& name, const json& value) const {
    if (!value.is_string()) fail("tensor ", base::quoted(name), ": dtype is not a string");
    const auto& text = value.get_ref<const std::string&>();
    const auto known = tensor_dtype_named(text);
    if (!known) {
      fail("tensor ", base::quoted(name), ": unknown dtype ", base::quoted(text), "; known are ",
           tensor_dtypes());
    }
    return *known;
  }

  std::vector<std::int64_t> shape(const std::string& name, const json& value) const {
    if (!value.is_array() || value.size() > kMostDimensions) {
      fail("tensor ", base::quoted(name), ": shape is not a list of at most ", kMostDimensions,
           " numbers");
    }
    std::vector<std::int64_t> result;
    for (const auto& dimension : value) {
      constexpr auto kLargest =
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      if (!dimension.is_number_unsigned() || dimension.get<std::uint64_t>() > kLargest) {
        fail("tensor ", base::quoted(name),
             ": a dimension is not a whole number from 0 to 2^63 - 1");
      }
      result.push_back(dimension.get<std::int64_t>());
    }
    return result;
  }

  void check_extent(const TensorEntry& entry) const {
    if (entry.begin > entry.end || entry.end > data_bytes_) {
      fail("tensor ", base::quoted(entry.name), ": bytes ", entry.begin, " to ", entry.end,
           " are not within the ", data_bytes_, " bytes of data (was the file cut short?)");
    }
    const auto expected = tensor_bytes(entry.shape, entry.dtype.bytes);
    if (!expected) fail("tensor ", base::quoted(entry.name), ": its shape's size overflows");
    if (entry.end - entry.begin != *expected) {
      fail("tensor ", base::quoted(entry.name), ": shape [", base::join(entry.shape, ", "), "] of ",
           entry.dtype.name, " takes ", *expected, " bytes, the offsets give it ",
           entry.end - entry.begin);
    }
  }

  void check_coverage(const std::vector<TensorEntry>& tensors) const {
    std::uint64_t position = 0;
    for (const auto& each : tensors) {
      if (each.begin != position) {
        fail("tensor ", base::quoted(each.name), ": its data begins at byte ", each.begin,
             each.begin < position ? ", inside another tensor's" : ", after a hole",
             "; expected byte ", position);
      }
      position = each.end;
    }
    if (position != data_bytes_) {
      fail("the tensors' data ends at byte ", position, " of ", data_bytes_);
    }
  }

  std::uint64_t data_bytes_;
  std::string_view file_;
};

}  // namespace

std::optional<TensorDtype> tensor_dtype_named(std::string_view name) {
  return dtype_among(kTensorDtypes, name);
}

std::optional<std::uint64_t> tensor_bytes(std::span<const std::int64_t> shape,
                                          std::int64_t item_bytes) {
  std::int64_t bytes = item_bytes;
  bool is_empty = false;
  for (const std::int64_t dimension : shape) {
    is_empty |= dimension == 0;
    if (dimension < 0) return std::nullopt;
    if (dimension != 0 && __builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return is_empty ? 0 : static_cast<std::uint64_t>(bytes);
}

std::int64_t safetensors_item_bytes(std::string_view dtype) {
  return dtype_among(kDtypes, dtype).value_or(TensorDtype{}).bytes;
}

std::string tensor_dtypes() {
  std::vector<std::string_view> names;
  for (const TensorDtype& each : kTensorDtypes) names.push_back(each.name);
  return base::join(names, ", ");
}

std::uint64_t safetensors_header_length(std::string_view first_bytes, std::uint64_t file_bytes,
                                        std::string_view file) {
  if (first_bytes.size() < kSafetensorsLengthBytes) {
    fail_in(file, "it has ", file_bytes, " bytes, fewer than the header's length takes");
  }
  const auto head = std::as_bytes(std::span(first_bytes.substr(0, kSafetensorsLengthBytes)));
  const std::uint64_t length = record_framing::load_little_endian(head);
  if (length > kLongestHeader || length > file_bytes - kSafetensorsLengthBytes) {
    fail_in(file, "the header's length, ", length, ", does not fit in the file's ", file_bytes,
            " bytes");
  }
  return length;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           std::string_view file) {
  return Parser(data_bytes, file).parse(json);
}

std::string write_safetensors_header(const SafetensorsHeader& header) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) root[std::string(kMetadata)] = header.metadata;
  // Names are unique: `root[name]` would search all existing keys each time.
  auto& entries = root.get_ref<nlohmann::ordered_json::object_t&>();
  for (const auto& each : header.tensors) {
    nlohmann::ordered_json entry;
    entry["dtype"] = each.dtype.name;
    entry["shape"] = each.shape;
    entry["data_offsets"] = {each.begin, each.end};
    entries.emplace_back(each.name, std::move(entry));
  }
  try {
    auto text = root.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInvalidArgument,
                "safetensors: a tensor's name or the metadata is not UTF-8: ", error.what());
  }
}

}  // namespace brigade::io
