#include "brigade/checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/crc32c.h"
#include "brigade/io/state_json.h"

namespace brigade::checkpoint {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const ManifestFile& file) {
  ordered_json json;
  json["name"] = file.name;
  json["bytes"] = file.seal.bytes;
  json["crc32c"] = to_hex(file.seal.crc32c);
  return json;
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
  ordered_json json;
  json["is_kept"] = kept.is_kept;
  json["last_step"] = kept.last_step;
  json["last_time_ms"] = kept.last_time.count();
  return json;
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
                base::str_cat("a checkpoint's names or metadata are not UTF-8: ", error.what()));
  }
}

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
                 base::str_cat("save: the names, metadata and state of the checkpoint take ",
                               base::human_bytes(text.size()), "; a manifest has at most ",
                               base::human_bytes(kMostManifestBytes)));
  return text;
}

}  // namespace brigade::checkpoint
