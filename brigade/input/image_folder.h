#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/data/runtime/autotune.h"
#include "brigade/image/folder_index.h"
#include "brigade/image/image.h"
#include "brigade/image/resize.h"
#include "brigade/input/image_transform.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/io/file_system.h"

namespace brigade::input {

/// The format of labels in batches of images.
enum class LabelMode {
  kInt,          ///< int64 [N]
  kCategorical,  ///< float32 [N, classes], 1 at the label
  kBinary,       ///< float32 [N, 1], 0 or 1; only with two classes
};

/// The channels of the images: 3, 4 with alpha, or 1.
enum class ColorMode { kRgb, kRgba, kGrayscale };

/// Which part of the files to use if `validation_split` is set.
enum class Subset { kTraining, kValidation, kBoth };

/// What happens to images of another shape than `image_size`.
enum class AspectRatio {
  kStretch,  ///< Both sides are resized, each by its own factor.
  kCrop,     ///< The largest centered window with that aspect ratio is resized.
};

/// How JPEG files that are larger than requested are decoded.
enum class JpegDecoding {
  kExact,   ///< As TensorFlow.
  kScaled,  ///< Large files are decoded at 1/2, 1/4 or 1/8 of their size, but not smaller than
            ///< requested: several times faster, with slightly different pixels.
};

/// Names and defaults are those of keras.utils.image_dataset_from_directory where it has the
/// option.
struct ImageFolderOptions {
  /// The source of labels; see `image::index_folder`.
  image::LabelSource labels_from = image::LabelSource::kFolders;
  /// For kList: the labels of all files in their order.
  std::vector<std::int64_t> labels{};
  /// For kFolders: the folders to use, in the order of their labels. Empty: all, sorted.
  std::vector<std::string> class_names{};
  /// The format of the labels in batches.
  LabelMode label_mode = LabelMode::kInt;
  /// The channels that images are decoded to.
  ColorMode color_mode = ColorMode::kRgb;
  /// Examples per batch; the last batch may be smaller.
  std::int64_t batch_size = 32;
  /// Height and width of the features: every image is resized to them.
  image::Size image_size{256, 256};
  /// Off: files in the order of `image::index_folder`. On: another order in each epoch.
  bool shuffle = true;
  /// Seed of the orders and of the choice of validation files. Unset: orders are derived from the
  /// job's seed. Must be set if files are shuffled and split.
  std::optional<std::uint64_t> seed{};
  /// The fraction of the files used for validation; requires `subset`.
  std::optional<double> validation_split{};
  /// The part of the files to use; requires `validation_split`.
  std::optional<Subset> subset{};
  /// How images are resized.
  image::Interpolation interpolation = image::Interpolation::kBilinear;
  /// If false, folders inside a class that are symbolic links are ignored.
  bool follow_links = false;
  /// What happens to images of another shape than `image_size`.
  AspectRatio aspect_ratio = AspectRatio::kStretch;
  /// The layout of the features; Brigade's layers expect channels first.
  image::Layout layout = image::Layout::kChannelsFirst;
  /// kScaled is faster for large files, with slightly different pixels.
  JpegDecoding jpeg_decoding = JpegDecoding::kExact;
  /// Makes the tensor of a decoded image, in place of `image_size`, `interpolation`,
  /// `aspect_ratio` and `layout`: `training_transform`, `evaluation_transform`, or your own.
  ImageTransform transform{};
  /// Threads that read and decode.
  std::int64_t parallelism = data::kAutotune;
  /// Unset: the local file system.
  std::shared_ptr<const io::FileSystem> files{};
};

/// A folder of images as a dataset.
template <class T>
struct ImageFolder {
  /// The images; with Subset::kBoth, those for training.
  data::Dataset<T> dataset;
  /// Set with Subset::kBoth; not reshuffled.
  std::optional<data::Dataset<T>> validation{};
  /// [label]: the name of its class.
  std::vector<std::string> class_names{};
  /// The files of `dataset`, in the order that they have before each epoch is shuffled.
  std::vector<io::Path> file_paths{};
  /// The files of `validation`, in its order.
  std::vector<io::Path> validation_file_paths{};
};

/// The images in the folders of a folder, each folder a class:
///
///   pets/cats/1.jpg  pets/cats/2.jpg  pets/dogs/1.jpg ...
///
///   auto pets = input::image_dataset_from_directory("pets", {.image_size = {224, 224}});
///   pets.class_names;  // "cats", "dogs"
///   for (const auto& batch : pets.dataset) { ... }
///
/// Features are float32 [N, C, height, width] with values 0 to 255. Files are JPEG, PNG or BMP. A
/// file that cannot be read or decoded is an element that fails, with the file named. The dataset
/// can be sharded by files.
///
/// Throws as `image::index_folder`, and kInvalidArgument if there are no images, for subsets
/// without a split (or the other way, or shuffled without a seed), for kBinary without exactly two
/// classes, and for labels that the label mode cannot hold.
/// TensorFlow counterpart: keras.utils.image_dataset_from_directory.
ImageFolder<LabeledBatch> image_dataset_from_directory(const io::Path& directory,
                                                       const ImageFolderOptions& options = {});

/// As above, as single examples, for augmentation: features [C, height, width], integer labels
/// (`label_mode` must be kInt; `batch_size` is not used). TensorFlow: batch_size=None.
ImageFolder<LabeledExample> image_examples_from_directory(const io::Path& directory,
                                                          const ImageFolderOptions& options = {});

/// Batches of images without labels: all in the folder and below. TensorFlow: labels=None.
ImageFolder<at::Tensor> images_from_directory(const io::Path& directory,
                                              ImageFolderOptions options = {});

}  // namespace brigade::input
