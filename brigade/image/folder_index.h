#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::image {

/// Where the labels of the images in a folder come from.
enum class LabelSource {
  kFolders,  ///< Each subfolder is a class, with the images in it and in the folders below.
  kList,     ///< A list of labels, one per file.
  kNone,     ///< There are none.
};

/// Options of `index_folder`.
struct FolderIndexOptions {
  /// Where the labels come from.
  LabelSource labels_from = LabelSource::kFolders;
  /// For kList: the labels of all files in their order (see `index_folder`).
  std::vector<std::int64_t> labels{};
  /// For kFolders: the folders to use, in the order of their labels. Empty: all, sorted.
  std::vector<std::string> class_names{};
  /// If false, folders inside a class that are symbolic links are ignored.
  bool follow_links = false;
};

/// The images of a folder.
struct FolderIndex {
  std::vector<io::Path> files{};
  std::vector<std::int64_t> labels{};      ///< one per file; none with LabelSource::kNone
  std::vector<std::string> class_names{};  ///< label i is class_names[i]; for kList the
                                           ///< labels, sorted, as text
};

/// Finds the files named *.bmp, *.gif, *.jpeg, *.jpg and *.png (case-insensitive), with the rules
/// of keras.utils.image_dataset_from_directory: class by class; folders in a class are sorted by
/// their whole path, and files in a folder by name, in byte order. Folders whose names begin with a
/// dot are not classes.
///
/// Throws kNotFound if the folder or one of the class names is missing; kInvalidArgument if the
/// numbers of labels and files differ, if labels or class names are given but not used, if class
/// names repeat, or if folders are nested more than 100 deep (cyclic links).
FolderIndex index_folder(const io::FileSystem& files, const io::Path& directory,
                         const FolderIndexOptions& options = {});

/// Shuffles files and labels together, in an order that depends only on `seed`. (Keras uses numpy's
/// generator: the same seed gives another order here.)
FolderIndex shuffled(FolderIndex index, std::uint64_t seed);

/// Splits off the last fraction `validation_split` of the files, rounded down to whole files.
/// Returns the training files and the validation files. Throws kInvalidArgument unless the fraction
/// is between 0 and 1.
std::pair<FolderIndex, FolderIndex> split(const FolderIndex& index, double validation_split);

}  // namespace brigade::image
