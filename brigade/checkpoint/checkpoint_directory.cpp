#include "brigade/checkpoint/checkpoint_directory.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/read_at_most.h"

namespace brigade::checkpoint {
namespace {

constexpr std::string_view kPrefix = "ckpt-";

// Errors of the checkpoint itself, not of the machine or of permissions. A newer format
// (kUnimplemented) is not broken: it may be the newest, and its number is unknown.
bool is_broken(ErrorCode code) {
  return code == ErrorCode::kDataLoss || code == ErrorCode::kNotFound ||
         code == ErrorCode::kInvalidArgument;
}

DirectoryEntry examine(const io::FileSystem& files, const io::Path& path, FolderName name) {
  DirectoryEntry entry{.path = path,
                       .step = name.step,
                       .attempt = name.attempt,
                       .manifest = std::nullopt,
                       .reason = ""};
  try {
    entry.manifest = read_manifest(files, path);
  } catch (const Error& error) {
    if (!is_broken(error.code())) throw;
    entry.reason = error.what();
  }
  return entry;
}

std::optional<std::int64_t> digits_only(std::string_view text) {
  const bool is_plain = !text.empty() && text.find_first_not_of("0123456789") == text.npos &&
                        (text.size() == 1 || text.front() != '0');
  return is_plain ? base::parse_int(text) : std::nullopt;
}

}  // namespace

std::vector<DirectoryEntry> list_checkpoints(const io::FileSystem& files,
                                             const io::Path& directory) {
  std::vector<DirectoryEntry> entries;
  if (!files.exists(directory)) return entries;
  for (const std::string& name : files.list(directory)) {
    const auto known = parse_folder_name(name);
    if (!known) continue;
    auto entry = examine(files, directory / name, *known);
    // Skipped if it is gone: a saver has removed an old one meanwhile.
    if (entry.manifest || files.exists(entry.path)) entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const DirectoryEntry& a, const DirectoryEntry& b) {
    const auto key = [](const DirectoryEntry& each) {
      return std::make_tuple(!each.manifest, each.manifest ? each.manifest->number : each.step,
                             each.step, each.attempt);
    };
    return key(a) < key(b);
  });
  return entries;
}

Manifest read_manifest(const io::FileSystem& files, const io::Path& folder) {
  const io::Path path = folder / kManifestName;
  Manifest manifest =
      parse_manifest(io::read_at_most(files, path, kMostManifestBytes), path.string());
  for (const ManifestFile& each : manifest.files) {
    const auto info = files.info(folder / each.name);
    if (!info || info->kind != io::FileKind::kFile) {
      throw Error(ErrorCode::kDataLoss,
                  base::str_cat(folder, ": its file ", each.name, " is missing"));
    }
    if (info->size != each.seal.bytes) {
      throw Error(ErrorCode::kDataLoss,
                  base::str_cat(folder, ": its file ", each.name, " has ", info->size,
                                " bytes, expected ", each.seal.bytes, " (was it cut short?)"));
    }
  }
  return manifest;
}

std::string folder_name(std::int64_t step, int attempt) {
  return base::str_cat(kPrefix, step, attempt > 1 ? base::str_cat("-", attempt) : "");
}

std::optional<FolderName> parse_folder_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const auto dash = name.find('-');
  const auto step = digits_only(name.substr(0, dash));
  if (!step) return std::nullopt;
  if (dash == name.npos) return FolderName{.step = *step, .attempt = 1};
  const auto attempt = digits_only(name.substr(dash + 1));
  if (!attempt || *attempt < 2 || *attempt > std::numeric_limits<int>::max()) return std::nullopt;
  return FolderName{.step = *step, .attempt = static_cast<int>(*attempt)};
}

}  // namespace brigade::checkpoint
