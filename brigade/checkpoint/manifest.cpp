#include "brigade/checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/crc32c.h"
#include "brigade/io/safetensors_header.h"
#include "brigade/io/state_json.h"
#include "brigade/io/strict_json.h"

namespace brigade::checkpoint {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const ManifestFile& file) {
  return {{"name", file.name}, {"bytes", file.seal.bytes}, {"crc32c", to_hex(file.seal.crc32c)}};
}

ordered_json json_of(const std::map<std::string, ManifestTensor>& tensors) {
  ordered_json json = ordered_json::object();
  // Appended: `json[name]` would search all existing keys each time.
  auto& entries = json.get_ref<ordered_json::object_t&>();
  for (const auto& [name, tensor] : tensors) {
    ordered_json entry;
    entry["file"] = tensor.file;
    entry["dtype"] = tensor.dtype.safetensors;
    entry["shape"] = tensor.shape;
    entries.emplace_back(name, std::move(entry));
  }
  return json;
}

ordered_json json_of(const KeptMark& kept) {
  return {{"is_kept", kept.is_kept},
          {"last_step", kept.last_step},
          {"last_time_ms", kept.last_time.count()}};
}

// JSON has no NaN and no infinities: state trees encode them.
std::string metrics_text(const std::map<std::string, double>& metrics) {
  io::StateTree tree = io::StateTree::dict();
  for (const auto& [name, value] : metrics) tree[name] = value;
  return io::to_json(tree).json;
}

std::string text_of(const ordered_json& json) {
  try {
    return json.dump();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInvalidArgument,
                "a checkpoint's names or metadata are not UTF-8: ", error.what());
  }
}

using Json = nlohmann::json;

constexpr std::string_view kSumKey = ",\"crc32c\":\"";
constexpr std::size_t kSumDigits = 8;
constexpr std::string_view kSumEnd = "\"}\n";
constexpr std::string_view kFileEnd = ".safetensors";
// The maximum depth of the state, plus the object around it.
constexpr std::size_t kDeepestManifest = io::kMaxStateDepth + 1;
constexpr std::size_t kMostManifestDimensions = 64;
const std::set<std::string, std::less<>> kKeys = {
    "brigade_checkpoint", "number",  "step",         "time_ms", "kept",  "metadata", "files",
    "variables",          "tensors", "state_arrays", "metrics", "state", "crc32c"};

class ManifestParser {
 public:
  explicit ManifestParser(std::string_view file) : file_(file) {}

  Manifest parse(std::string_view text) {
    check_sum(text);
    const Json root = parse_json(text);
    if (!root.is_object()) fail("it is not a JSON object");
    check_version(root);
    check_keys(root, kKeys, "the manifest");
    Manifest manifest;
    manifest.number = integer(root["number"], "number", 1);
    manifest.step = integer(root["step"], "step", 0);
    manifest.time = milliseconds(root["time_ms"], "time_ms");
    manifest.kept = kept(root["kept"]);
    manifest.metadata = metadata(root["metadata"]);
    read_files(root["files"], manifest);
    users_.assign(manifest.files.size(), {});
    read_tensors(root["variables"], Section::kVariables, manifest);
    read_tensors(root["tensors"], Section::kTensors, manifest);
    read_tensors(root["state_arrays"], Section::kState, manifest);
    check_files_are_used(manifest);
    manifest.metrics = metrics(root["metrics"]);
    manifest.state = root["state"].dump();
    return manifest;
  }

 private:
  struct User {  // the section that a file belongs to
    std::optional<Section> section;
    std::uint64_t bytes = 0;
  };

  template <class... T>
  [[noreturn]] void fail(const T&... pieces) const {
    throw Error(ErrorCode::kDataLoss, file_, ": not a valid manifest: ", pieces...);
  }

  void check_sum(std::string_view text) const {
    const std::size_t tail = kSumKey.size() + kSumDigits + kSumEnd.size();
    if (text.size() < tail || !text.ends_with(kSumEnd) ||
        text.substr(text.size() - tail, kSumKey.size()) != kSumKey) {
      fail("it does not end with its sum (was it cut short?)");
    }
    const std::string_view body = text.substr(0, text.size() - tail);
    const std::string_view sum = text.substr(text.size() - kSumEnd.size() - kSumDigits, kSumDigits);
    if (to_hex(io::crc32c(io::as_bytes(body))) != sum) fail("its CRC-32C is not ", sum);
  }

  Json parse_json(std::string_view text) const {
    return io::parse_strict_json(text, kDeepestManifest,
                                 [this](const std::string& why) { fail(why); });
  }

  void check_version(const Json& root) const {
    if (!root.contains("brigade_checkpoint")) fail("'brigade_checkpoint' is missing");
    const std::int64_t version = integer(root["brigade_checkpoint"], "brigade_checkpoint", 1);
    if (version > kManifestVersion) {
      throw Error(ErrorCode::kUnimplemented, file_, ": the checkpoint has format version ", version,
                  "; this build of Brigade reads up to ", kManifestVersion, ": use a newer one");
    }
  }

  void check_keys(const Json& object, const std::set<std::string, std::less<>>& keys,
                  std::string_view what) const {
    if (!object.is_object()) fail(what, " is not an object");
    for (const std::string& key : keys) {
      if (!object.contains(key)) fail(what, ": ", base::quoted(key), " is missing");
    }
    for (const auto& [key, value] : object.items()) {
      if (!keys.contains(key)) fail(what, ": unknown key ", base::quoted(key));
    }
  }

  std::int64_t integer(const Json& value, std::string_view what, std::int64_t least) const {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost ||
        value.get<std::int64_t>() < least) {
      fail(what, " is not a whole number from ", least, " to 2^63 - 1");
    }
    return value.get<std::int64_t>();
  }

  std::chrono::milliseconds milliseconds(const Json& value, std::string_view what) const {
    return std::chrono::milliseconds(integer(value, what, 0));
  }

  const std::string& text(const Json& value, std::string_view what) const {
    if (!value.is_string()) fail(what, " is not text");
    return value.get_ref<const std::string&>();
  }

  KeptMark kept(const Json& value) const {
    check_keys(value, {"is_kept", "last_step", "last_time_ms"}, "kept");
    if (!value["is_kept"].is_boolean()) fail("kept: 'is_kept' is neither true nor false");
    return {.is_kept = value["is_kept"].get<bool>(),
            .last_step = integer(value["last_step"], "kept: last_step", 0),
            .last_time = milliseconds(value["last_time_ms"], "kept: last_time_ms")};
  }

  std::map<std::string, std::string> metadata(const Json& value) const {
    if (!value.is_object()) fail("metadata is not an object");
    std::map<std::string, std::string> result;
    for (const auto& [key, entry] : value.items()) {
      result[key] = text(entry, base::str_cat("metadata ", base::quoted(key)));
    }
    return result;
  }

  std::map<std::string, double> metrics(const Json& value) const {
    std::map<std::string, double> result;
    try {
      const io::StateTree tree = io::from_json(value.dump());
      for (const auto& [name, metric] : tree.as_dict()) result[name] = metric.as_double();
    } catch (const Error& error) {
      fail("metrics: ", error.what());
    }
    return result;
  }

  void read_files(const Json& value, Manifest& manifest) const {
    if (!value.is_array()) fail("files is not a list");
    std::set<std::string> names;
    for (const Json& entry : value) {
      check_keys(entry, {"name", "bytes", "crc32c"}, "a file");
      const std::string& name = text(entry["name"], "a file's name");
      check_file_name(name);
      if (!names.insert(name).second) fail("file ", base::quoted(name), " occurs twice");
      const auto bytes =
          integer(entry["bytes"], base::str_cat("file ", base::quoted(name), ": bytes"), 0);
      manifest.files.push_back(
          {name, {static_cast<std::uint64_t>(bytes), sum(entry["crc32c"], name)}});
    }
  }

  void check_file_name(const std::string& name) const {
    const auto is_allowed = [](unsigned char c) {
      return std::isalnum(c) || c == '-' || c == '_' || c == '.';
    };
    if (name.size() > 200 || !name.ends_with(kFileEnd) || name.starts_with('.') ||
        !std::all_of(name.begin(), name.end(), is_allowed)) {
      fail(base::quoted(name), " is not the name of a file in the checkpoint's folder");
    }
  }

  std::uint32_t sum(const Json& value, const std::string& name) const {
    const std::string& digits = text(value, base::str_cat("file ", base::quoted(name), ": crc32c"));
    const bool is_hex = digits.size() == kSumDigits &&
                        digits.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!is_hex) fail("file ", base::quoted(name), ": crc32c is not eight hexadecimal digits");
    return static_cast<std::uint32_t>(std::stoul(digits, nullptr, 16));
  }

  void read_tensors(const Json& value, Section section, Manifest& manifest) {
    if (!value.is_object()) fail(section, " is not an object");
    auto& tensors = manifest.tensors[static_cast<std::size_t>(section)];
    for (const auto& [name, entry] : value.items()) {
      const std::string what = base::str_cat(section, " ", base::quoted(name));
      check_keys(entry, {"file", "dtype", "shape"}, what);
      ManifestTensor tensor{.file = static_cast<std::size_t>(integer(entry["file"], what, 0)),
                            .dtype = dtype(entry["dtype"], what),
                            .shape = shape(entry["shape"], what)};
      if (tensor.file >= manifest.files.size()) fail(what, ": there is no file ", tensor.file);
      claim(tensor, section, manifest.files[tensor.file], what);
      tensors.emplace(name, std::move(tensor));
    }
  }

  device::FileDtype dtype(const Json& value, std::string_view what) const {
    const auto known = device::file_dtype_named(text(value, what));
    if (!known) {
      fail(what, ": unknown dtype ", base::quoted(value.get<std::string>()), "; known are ",
           io::tensor_dtypes());
    }
    return *known;
  }

  std::vector<std::int64_t> shape(const Json& value, std::string_view what) const {
    if (!value.is_array() || value.size() > kMostManifestDimensions) {
      fail(what, ": shape is not a list of at most ", kMostManifestDimensions, " numbers");
    }
    std::vector<std::int64_t> result;
    for (const Json& dimension : value) result.push_back(integer(dimension, what, 0));
    return result;
  }

  void claim(const ManifestTensor& tensor, Section section, const ManifestFile& file,
             std::string_view what) {
    const auto bytes = io::tensor_bytes(tensor.shape, tensor.dtype.bytes);
    if (!bytes) fail(what, ": its shape's size overflows");
    User& user = users_[tensor.file];
    if (user.section && *user.section != section) {
      fail("file ", base::quoted(file.name), " holds both ", *user.section, " and ", section);
    }
    user.section = section;
    user.bytes += *bytes;
    if (user.bytes > file.seal.bytes) {
      fail(what, ": its file ", base::quoted(file.name), " has only ", file.seal.bytes, " bytes");
    }
  }

  void check_files_are_used(const Manifest& manifest) const {
    for (std::size_t i = 0; i < users_.size(); ++i) {
      if (!users_[i].section) fail("file ", base::quoted(manifest.files[i].name), " holds nothing");
    }
  }

  std::string_view file_;
  std::vector<User> users_;  // [file]
};

}  // namespace

std::string_view to_string(Section section) {
  switch (section) {
    case Section::kVariables:
      return "variables";
    case Section::kTensors:
      return "tensors";
    case Section::kState:
      return "state";
  }
  return "unknown";
}

std::uint64_t ManifestTensor::bytes() const {
  auto total = static_cast<std::uint64_t>(dtype.bytes);
  for (const auto dimension : shape) total *= static_cast<std::uint64_t>(dimension);
  return total;
}

std::uint64_t Manifest::bytes() const {
  std::uint64_t total = 0;
  for (const ManifestFile& each : files) total += each.seal.bytes;
  return total;
}

std::string write_manifest(const Manifest& manifest) {
  ordered_json root;
  root["brigade_checkpoint"] = kManifestVersion;
  root["number"] = manifest.number;
  root["step"] = manifest.step;
  root["time_ms"] = manifest.time.count();
  root["kept"] = json_of(manifest.kept);
  root["metadata"] = ordered_json(manifest.metadata);
  root["files"] = ordered_json::array();
  for (const ManifestFile& each : manifest.files) root["files"].push_back(json_of(each));
  root["variables"] = json_of(manifest.section(Section::kVariables));
  root["tensors"] = json_of(manifest.section(Section::kTensors));
  root["state_arrays"] = json_of(manifest.section(Section::kState));
  std::string text = text_of(root);
  text.pop_back();  // the closing brace, to append more
  text +=
      base::str_cat(",\"metrics\":", metrics_text(manifest.metrics), ",\"state\":", manifest.state);
  text += base::str_cat(",\"crc32c\":\"", to_hex(io::crc32c(io::as_bytes(text))), "\"}\n");
  check_argument(text.size() <= kMostManifestBytes,
                 "save: the names, metadata and state of the checkpoint take ",
                 base::human_bytes(text.size()), "; a manifest has at most ",
                 base::human_bytes(kMostManifestBytes));
  return text;
}

Manifest parse_manifest(std::string_view text, std::string_view file) {
  return ManifestParser(file).parse(text);
}

}  // namespace brigade::checkpoint
