#include "brigade/checkpoint/checkpoint_directory.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/io/own_files.h"

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

constexpr std::string_view kSavingEnd = ".saving";
constexpr std::string_view kRemovingEnd = ".removing";
constexpr std::string_view kBrokenEnd = ".broken";

bool is_folder(const io::FileSystem& files, const io::Path& path) {
  const auto found = files.entry(path);
  return found && found->kind == io::FileKind::kDirectory;
}

/// Removes `beginning` from the front of `text`; false if `text` does not start with it.
bool skip(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}

/// Removes one to `most` digits from the front of `text`; false if there are none.
bool skip_digits(std::string_view& text, std::size_t most = std::string_view::npos) {
  const std::size_t count = std::min({text.find_first_not_of("0123456789"), text.size(), most});
  text.remove_prefix(count);
  return count > 0;
}

/// Whether it is ".ckpt-120.saving", ".ckpt-120-2.removing" and the like, with a nonce or a number
/// in the middle.
bool is_temporary_folder(std::string_view name) {
  const bool is_saving = name.ends_with(kSavingEnd);
  if (!is_saving && !name.ends_with(kRemovingEnd)) return false;
  name.remove_suffix(is_saving ? kSavingEnd.size() : kRemovingEnd.size());
  if (!skip(name, kTemporaryPrefix) || !skip_digits(name)) return false;
  if (skip(name, "-") && !skip_digits(name)) return false;
  return name.find_first_not_of("0123456789abcdef.") == name.npos;
}

/// Whether this is the temporary file of an interrupted write of `latest`.
bool is_temporary_pointer(std::string_view name) {
  return name.starts_with(base::str_cat(".", kLatestName, ".")) && name.ends_with(".tmp");
}

/// ".ckpt-120.removing", with a number if something at that path cannot be removed.
io::Path free_hidden_path(io::FileSystem& files, const io::Path& checkpoint) {
  for (int n = 1;; ++n) {
    io::Path path =
        checkpoint.parent_path() / base::str_cat(".", checkpoint.filename().string(),
                                                 n > 1 ? base::str_cat(".", n) : "", kRemovingEnd);
    if (io::remove_own_folder(files, path, is_checkpoint_file)) return path;
  }
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
      throw Error(ErrorCode::kDataLoss, folder, ": its file ", each.name, " is missing");
    }
    if (info->size != each.seal.bytes) {
      throw Error(ErrorCode::kDataLoss, folder, ": its file ", each.name, " has ", info->size,
                  " bytes, expected ", each.seal.bytes, " (was it cut short?)");
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

bool is_checkpoint_file(std::string_view name) {
  if (name == kManifestName) return true;
  const bool has_section = std::any_of(kSections.begin(), kSections.end(), [&](Section section) {
    return skip(name, base::str_cat(section, "-"));
  });
  return has_section && skip_digits(name) && skip(name, "-of-") && skip_digits(name) &&
         name == ".safetensors";
}

io::Path make_saving_folder(io::FileSystem& files, const io::Path& directory, std::int64_t step,
                            std::string_view nonce) {
  const std::string name =
      base::str_cat(kTemporaryPrefix, step, nonce.empty() ? "" : base::str_cat(".", nonce));
  for (int n = 1;; ++n) {
    io::Path path = directory / base::str_cat(name, n > 1 ? base::str_cat(".", n) : "", kSavingEnd);
    if (!io::remove_own_folder(files, path, is_checkpoint_file)) continue;
    files.create_directory(path);
    return path;
  }
}

void remove_checkpoint_folder(io::FileSystem& files, const io::Path& folder) {
  io::remove_own_folder(files, folder, is_checkpoint_file);
}

void remove_checkpoints(io::FileSystem& files, const io::Path& directory,
                        std::span<const io::Path> checkpoints) {
  std::vector<io::Path> hidden;
  for (const io::Path& path : checkpoints) {
    if (is_folder(files, path)) {
      hidden.push_back(free_hidden_path(files, path));
      files.rename(path, hidden.back());
    } else if (files.entry(path)) {
      base::log_warning(path, " is not a folder made by a saver; it is left in place");
    }
  }
  files.sync_directory(directory);
  for (const io::Path& each : hidden) remove_checkpoint_folder(files, each);
}

void remove_unfinished_saves(io::FileSystem& files, const io::Path& directory) {
  for (const std::string& name : files.list(directory)) {
    if (is_temporary_folder(name)) remove_checkpoint_folder(files, directory / name);
    if (is_temporary_pointer(name)) io::remove_own_file(files, directory / name);
  }
}

io::Path set_aside(io::FileSystem& files, const io::Path& checkpoint) {
  if (!is_folder(files, checkpoint)) return checkpoint;
  for (int n = 1;; ++n) {
    io::Path path = checkpoint;
    path += base::str_cat(kBrokenEnd, n > 1 ? base::str_cat("-", n) : "");
    if (files.entry(path)) continue;
    files.rename(checkpoint, path);
    base::log_warning("The broken checkpoint ", checkpoint, " is kept as ", path);
    return path;
  }
}

void clear_directory(io::FileSystem& files, const io::Path& directory) {
  if (!files.exists(directory)) return;
  std::vector<io::Path> whole;
  for (const DirectoryEntry& each : list_checkpoints(files, directory)) {
    if (each.manifest) whole.push_back(each.path);
    if (!each.manifest) set_aside(files, each.path);
  }
  remove_checkpoints(files, directory, whole);
  remove_unfinished_saves(files, directory);
  io::remove_own_file(files, directory / kLatestName);
  files.sync_directory(directory);
  if (is_folder(files, directory) && files.list(directory).empty()) files.remove(directory);
}

}  // namespace brigade::checkpoint
