#include "brigade/io/own_files.h"

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

using base::str_cat;

void warn_of_kind(const Path& path, FileKind kind) {
  const std::string_view text = kind == FileKind::kFile        ? "a file"
                                : kind == FileKind::kDirectory ? "a folder"
                                : kind == FileKind::kLink      ? "a symbolic link"
                                                               : "not a regular file";
  base::log_warning(path, " is ", text, ", which was not created by Brigade; it is left in place");
}

void warn_of_left(const Path& directory, const std::vector<std::string>& left) {
  const std::size_t more = left.size() - 1;
  base::log_warning(directory, " contains files that were not created by Brigade: ", left.front(),
                    more > 0 ? str_cat(" and ", more, " more") : "",
                    "; they and the folder are left in place");
}

}  // namespace

bool remove_own_folder(FileSystem& files, const Path& directory, const IsOwnName& is_own) {
  const FolderSweep sweep = files.remove_files(directory, is_own);
  if (!sweep.is_folder) {
    const auto found = files.entry(directory);
    if (found) warn_of_kind(directory, found->kind);
    return !found;
  }
  if (!sweep.left.empty()) {
    warn_of_left(directory, sweep.left);
    return false;
  }
  try {
    files.remove(directory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kAlreadyExists) throw;
    base::log_warning(directory, " got new files while it was being removed; it is left in place");
    return false;
  }
  return true;
}

void remove_own_files(FileSystem& files, const Path& directory, const IsOwnName& is_own) {
  const FolderSweep sweep = files.remove_files(directory, is_own);
  if (!sweep.is_folder) {
    if (const auto found = files.entry(directory)) warn_of_kind(directory, found->kind);
    return;
  }
  std::vector<std::string> strange;
  for (const std::string& name : sweep.left) {
    if (is_own(name)) strange.push_back(name);
  }
  if (!strange.empty()) warn_of_left(directory, strange);
}

bool remove_own_file(FileSystem& files, const Path& path) {
  const auto found = files.entry(path);
  if (!found) return true;
  if (found->kind != FileKind::kFile) {
    warn_of_kind(path, found->kind);
    return false;
  }
  files.remove(path);
  return true;
}

}  // namespace brigade::io
