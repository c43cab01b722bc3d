#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::image {

enum class FollowLinks {
  kOff,  ///< Folders inside of a class that are symbolic links are left out.
  kOn,
};

/// Where the labels of the images in a folder come from.
enum class LabelSource {
  kFolders,  ///< Each folder in it is a class, with the images in it and in the folders below.
  kList,     ///< A list of labels, one a file.
  kNone,     ///< There are none.
};

struct FolderIndexOptions {
  LabelSource labels_from = LabelSource::kFolders;
  /// For kList: the labels of all files in their order (see `index_folder`).
  std::vector<std::int64_t> labels{};
  /// For kFolders: the folders to take, in the order that their labels count. Empty: all, sorted.
  std::vector<std::string> class_names{};
  FollowLinks follow_links = FollowLinks::kOff;
};

/// The images of a folder.
struct FolderIndex {
  std::vector<io::Path> files{};
  std::vector<std::int64_t> labels{};      ///< one a file; none with LabelSource::kNone
  std::vector<std::string> class_names{};  ///< label i is class_names[i]; of a list the labels'
                                           ///< numbers, sorted, as text
};

/// Finds the files named *.bmp, *.gif, *.jpeg, *.jpg and *.png (in any case of letters), with the
/// rules of keras.utils.image_dataset_from_directory: class after class; in a class folders by
/// their whole path, and files in a folder by their names, in byte order. Folders whose names begin
/// with a dot are no classes.
///
/// Throws kNotFound if the folder or a class named is missing; kInvalidArgument if there are not as
/// many labels as files, if labels or class names are given and not used, if class names repeat, or
/// if folders are nested more than 100 deep (links in a circle).
FolderIndex index_folder(const io::FileSystem& files, const io::Path& directory,
                         const FolderIndexOptions& options = {});

/// The files in a random order that is a function of `seed` alone; labels go along. (Keras's order
/// comes from numpy's generator: the same seed gives another order here.)
FolderIndex shuffled(FolderIndex index, std::uint64_t seed);

/// Cuts off the last `validation_split` of the files, a whole number, rounded down: first the part
/// for training, then the one for validation. Throws kInvalidArgument unless the share lies between
/// 0 and 1.
std::pair<FolderIndex, FolderIndex> split(const FolderIndex& index, double validation_split);

}  // namespace brigade::image
