#include "brigade/image/folder_index.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/base/strings.h"

namespace brigade::image {
namespace {

using base::str_cat;

bool is_image(const std::string& name) {
  constexpr std::array<std::string_view, 5> kEndings = {".bmp", ".gif", ".jpeg", ".jpg", ".png"};
  const std::string lower = base::lower_case(name);
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return lower.ends_with(ending); });
}

bool is_directory(const io::FileSystem& files, const io::Path& path) {
  const auto info = files.info(path);
  return info && info->kind == io::FileKind::kDirectory;
}

/// File systems in memory have no links, and their paths do not exist on disk.
bool is_link(const io::Path& path) {
  std::error_code ignored;
  return std::filesystem::is_symlink(path, ignored);
}

/// The names of the images directly in a folder, by the folder's path.
using ImagesByFolder = std::map<std::string, std::vector<std::string>>;

void find_images(const io::FileSystem& files, const io::Path& path, bool follow_links, int depth,
                 ImagesByFolder& found) {
  constexpr int kDeepest = 100;
  check_argument(depth <= kDeepest, path.string(), ": folders are nested more than ", kDeepest,
                 " deep; is there a cycle of links?");
  std::vector<std::string> images;
  for (const std::string& name : files.list(path)) {
    if (is_directory(files, path / name)) {
      if (follow_links || !is_link(path / name)) {
        find_images(files, path / name, follow_links, depth + 1, found);
      }
    } else if (is_image(name)) {
      images.push_back(name);
    }
  }
  if (!images.empty()) found.emplace(path.generic_string(), std::move(images));
}

std::vector<io::Path> images_in(const io::FileSystem& files, const io::Path& top,
                                const FolderIndexOptions& options) {
  ImagesByFolder found;
  find_images(files, top, options.follow_links, 0, found);
  std::vector<io::Path> paths;
  for (const auto& [folder, images] : found) {
    for (const std::string& name : images) paths.push_back(io::Path(folder) / name);
  }
  return paths;
}

std::vector<std::string> classes_in(const io::FileSystem& files, const io::Path& directory) {
  std::vector<std::string> classes;
  for (const std::string& name : files.list(directory)) {
    if (!name.starts_with('.') && is_directory(files, directory / name)) classes.push_back(name);
  }
  std::sort(classes.begin(), classes.end());
  return classes;
}

/// The classes to take, in their order.
std::vector<std::string> chosen_classes(const io::FileSystem& files, const io::Path& directory,
                                        const std::vector<std::string>& asked) {
  const std::vector<std::string> found = classes_in(files, directory);
  if (asked.empty()) return found;
  std::set<std::string> seen;
  for (const std::string& name : asked) {
    if (std::find(found.begin(), found.end(), name) == found.end()) {
      throw Error(ErrorCode::kNotFound, directory.string(), " has no folder for the class \"", name,
                  "\"; it has: ", base::join(found, ", "));
    }
    check_argument(seen.insert(name).second, "class_names has \"", name, "\" twice");
  }
  return asked;
}

void check_options(const FolderIndexOptions& options) {
  check_argument(options.labels.empty() || options.labels_from == LabelSource::kList,
                 "labels are given but not used: they go with LabelSource::kList");
  check_argument(options.class_names.empty() || options.labels_from == LabelSource::kFolders,
                 "class_names go with labels from folders only; classes of a list of labels are "
                 "its labels, sorted");
}

std::vector<std::string> names_of(const std::vector<std::int64_t>& labels) {
  std::vector<std::string> names;
  for (const std::int64_t label : std::set<std::int64_t>(labels.begin(), labels.end())) {
    names.push_back(str_cat(label));
  }
  return names;
}

FolderIndex index_classes(const io::FileSystem& files, const io::Path& directory,
                          const FolderIndexOptions& options) {
  FolderIndex index;
  index.class_names = chosen_classes(files, directory, options.class_names);
  for (const std::string& name : index.class_names) {
    const auto label = static_cast<std::int64_t>(&name - index.class_names.data());
    for (io::Path& path : images_in(files, directory / name, options)) {
      index.files.push_back(std::move(path));
      index.labels.push_back(label);
    }
  }
  return index;
}

}  // namespace

FolderIndex index_folder(const io::FileSystem& files, const io::Path& directory,
                         const FolderIndexOptions& options) {
  check_options(options);
  if (!is_directory(files, directory)) {
    throw Error(ErrorCode::kNotFound, "There is no folder ", directory.string(), " with images");
  }
  if (options.labels_from == LabelSource::kFolders) return index_classes(files, directory, options);
  FolderIndex index{.files = images_in(files, directory, options)};
  if (options.labels_from == LabelSource::kNone) return index;
  check_argument(options.labels.size() == index.files.size(), "There are ", options.labels.size(),
                 " labels for the ", index.files.size(), " images in ", directory.string());
  index.labels = options.labels;
  index.class_names = names_of(options.labels);
  return index;
}

FolderIndex shuffled(FolderIndex index, std::uint64_t seed) {
  base::CounterRng rng(base::derive_seed(seed, "image/folder_index", 0, 0));
  for (std::size_t left = index.files.size(); left > 1; --left) {
    const auto other = static_cast<std::size_t>(rng.uniform_below(left));
    std::swap(index.files[left - 1], index.files[other]);
    if (!index.labels.empty()) std::swap(index.labels[left - 1], index.labels[other]);
  }
  return index;
}

std::pair<FolderIndex, FolderIndex> split(const FolderIndex& index, double validation_split) {
  check_argument(validation_split > 0 && validation_split < 1, "validation_split is ",
                 validation_split, "; it must be between 0 and 1");
  const auto count = static_cast<double>(index.files.size());
  const auto held_back = static_cast<std::ptrdiff_t>(validation_split * count);
  const auto part = [&index](std::ptrdiff_t begin, std::ptrdiff_t end) {
    FolderIndex result{.class_names = index.class_names};
    result.files.assign(index.files.begin() + begin, index.files.begin() + end);
    if (!index.labels.empty()) {
      result.labels.assign(index.labels.begin() + begin, index.labels.begin() + end);
    }
    return result;
  };
  const auto all = static_cast<std::ptrdiff_t>(index.files.size());
  return {part(0, all - held_back), part(all - held_back, all)};
}

}  // namespace brigade::image
