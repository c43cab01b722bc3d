#include "brigade/data/sources/list_files.h"

#include <fnmatch.h>

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/data/sources/files.h"

namespace brigade::data {
namespace {

bool is_pattern(const std::string& name) {
  return name.find_first_of("*?[") != std::string::npos;
}

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

bool is_of(const io::FileSystem& files, const io::Path& path, io::FileKind kind) {
  const auto info = files.info(path);
  return info && info->kind == kind;
}

/// The paths directly in `folder` that match the first part of the pattern.
std::vector<io::Path> step(const io::FileSystem& files, const io::Path& folder,
                           const std::string& pattern) {
  if (!is_pattern(pattern)) return {folder / pattern};
  if (!folder.empty() && !is_of(files, folder, io::FileKind::kDirectory)) return {};
  std::vector<io::Path> found;
  for (const std::string& name : files.list(folder.empty() ? io::Path(".") : folder)) {
    if (matches(pattern, name)) found.push_back(folder / name);
  }
  return found;
}

std::vector<io::Path> paths_of(const io::FileSystem& files, const std::string& pattern) {
  const io::Path whole(pattern);
  std::vector<io::Path> paths = {whole.root_path()};
  for (const io::Path& part : whole.relative_path()) {
    std::vector<io::Path> next;
    for (const io::Path& path : paths) {
      const auto below = step(files, path, part.string());
      next.insert(next.end(), below.begin(), below.end());
    }
    paths = std::move(next);
  }
  std::erase_if(paths,
                [&](const io::Path& path) { return !is_of(files, path, io::FileKind::kFile); });
  return paths;
}

}  // namespace

std::vector<io::Path> match_files(const std::vector<std::string>& patterns,
                                  std::shared_ptr<const io::FileSystem> files) {
  const auto where = internal::file_system_or_default(std::move(files));
  check_argument(!patterns.empty(), "match_files: there is no pattern; give 1 or more");
  std::vector<io::Path> all;
  for (const std::string& pattern : patterns) {
    check_argument(!pattern.empty(), "match_files: a pattern is empty");
    const std::vector<io::Path> found = paths_of(*where, pattern);
    if (found.empty()) {
      throw Error(ErrorCode::kNotFound, "No file matches the pattern \"", pattern,
                  "\": check the folder and the names in it");
    }
    all.insert(all.end(), found.begin(), found.end());
  }
  std::ranges::sort(
      all, {}, [](const io::Path& path) -> auto& { return path.native(); });  // by bytes
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<io::Path> match_files(const std::string& pattern,
                                  std::shared_ptr<const io::FileSystem> files) {
  return match_files(std::vector<std::string>{pattern}, std::move(files));
}

Dataset<io::Path> list_files(const std::vector<std::string>& patterns,
                             const ListFilesOptions& options) {
  const auto files = std::make_shared<const internal::FileList>(
      match_files(patterns, options.file_system), "list_files");
  const auto list = internal::file_elements<io::Path>(
      files, [files](std::uint64_t file) { return (*files)[file]; });
  if (options.order == FileOrder::kByName) return list;
  return list.shuffle({.buffer_size = list.cardinality(), .seed = options.seed});
}

}  // namespace brigade::data
