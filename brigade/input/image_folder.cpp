#include "brigade/input/image_folder.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/sources/files.h"
#include "brigade/image/crop.h"
#include "brigade/image/decode.h"
#include "brigade/image/jpeg.h"
#include "brigade/image/normalize.h"
#include "brigade/input/one_hot.h"

namespace brigade::input {

namespace {

using base::str_cat;
using data::internal::FileListPtr;
using image::FolderIndex;

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;

std::int64_t channels_of(ColorMode mode) {
  if (mode == ColorMode::kGrayscale) return 1;
  return mode == ColorMode::kRgba ? 4 : 3;
}

/// Reads the image files of a list as tensors of one size.
///
/// Thread-safety: immutable.
class ImageLoader {
 public:
  ImageLoader(FileListPtr list, const ImageFolderOptions& options);

  /// Loads file `number` of the list. Errors name it.
  at::Tensor load(std::int64_t number, data::ElementContext& context) const;
  /// The options that determine the pixels, for the pipeline description.
  std::string describe() const;

 private:
  image::Image decode(const std::string& bytes) const;
  std::int64_t largest_ratio(const image::Size& stored) const;
  at::Tensor tensor_of(const image::Image& image) const;

  FileListPtr list_;
  ImageFolderOptions options_;
  std::shared_ptr<const io::FileSystem> files_;
};

ImageLoader::ImageLoader(FileListPtr list, const ImageFolderOptions& options)
    : list_(std::move(list)),
      options_(options),
      files_(options.files ? options.files : io::posix_file_system()) {}

at::Tensor ImageLoader::load(std::int64_t number, data::ElementContext& context) const {
  const auto file = static_cast<std::uint64_t>(number);
  try {
    const image::Image image = decode(io::read_at_most(*files_, (*list_)[file], kMaxImageBytes));
    return options_.transform ? options_.transform.apply(image.view(), context) : tensor_of(image);
  } catch (...) {
    list_->rethrow_in(file);
  }
}

std::string ImageLoader::describe() const {
  if (options_.transform)
    return str_cat("load_picture(", channels_of(options_.color_mode), " channels, ",
                   options_.transform.name, ")");
  const std::string crop = options_.aspect_ratio == AspectRatio::kCrop ? ", cropped" : "";
  const std::string scaled = options_.jpeg_decoding == JpegDecoding::kScaled ? ", scaled" : "";
  return str_cat("load_picture(", channels_of(options_.color_mode), " channels, ",
                 options_.image_size, ", ", options_.interpolation, crop, scaled, ", ",
                 options_.layout, ")");
}

image::Image ImageLoader::decode(const std::string& bytes) const {
  const std::int64_t channels = channels_of(options_.color_mode);
  if (options_.jpeg_decoding == JpegDecoding::kScaled &&
      image::format_of(bytes) == image::Format::kJpeg) {
    const std::int64_t ratio = largest_ratio(image::jpeg_size(bytes));
    return image::decode_jpeg(bytes, {.channels = channels, .ratio = ratio});
  }
  return image::decode_image(bytes, {.channels = channels});
}

std::int64_t ImageLoader::largest_ratio(const image::Size& stored) const {
  const image::Size& wanted = options_.image_size;
  std::int64_t ratio = 8;
  while (ratio > 1 &&
         (stored.height < ratio * wanted.height || stored.width < ratio * wanted.width)) {
    ratio /= 2;
  }
  return ratio;
}

at::Tensor ImageLoader::tensor_of(const image::Image& image) const {
  const image::Size& size = options_.image_size;
  const image::ImageView part =
      options_.aspect_ratio == AspectRatio::kCrop
          ? image.view().window(image::window_of_aspect(image.size(), size))
          : image.view();
  const image::FloatImage resized = image::resize(part, size, options_.interpolation);
  const bool is_first = options_.layout == image::Layout::kChannelsFirst;
  at::Tensor tensor = is_first ? at::empty({image.channels(), size.height, size.width}, at::kFloat)
                               : at::empty({size.height, size.width, image.channels()}, at::kFloat);
  auto* values = tensor.mutable_data_ptr<float>();
  if (is_first) {
    image::to_channels_first(resized, {values, static_cast<std::size_t>(tensor.numel())});
  } else {
    std::copy(resized.values().begin(), resized.values().end(), values);
  }
  return tensor;
}

void check_options(const ImageFolderOptions& options) {
  check_argument(options.validation_split.has_value() == options.subset.has_value(),
                 "validation_split and subset go together: set both or none");
  check_argument(!options.validation_split || !options.shuffle || options.seed.has_value(),
                 "Files that are shuffled and split need a seed, so that those for training and "
                 "those for validation never overlap");
  check_argument(options.image_size.height > 0 && options.image_size.width > 0, "image_size is ",
                 options.image_size, "; both must be 1 or more");
  check_argument(options.batch_size >= 1, "batch_size is ", options.batch_size,
                 "; it must be 1 or more");
}

/// Labels must be indices in the list of classes to be encoded.
void check_labels(const FolderIndex& index, LabelMode mode) {
  if (mode == LabelMode::kInt) return;
  const auto classes = static_cast<std::int64_t>(index.class_names.size());
  check_argument(mode != LabelMode::kBinary || classes == 2,
                 "Binary labels need exactly two classes, and there are ", classes, ": ",
                 base::join(index.class_names, ", "));
  for (const std::int64_t label : index.labels) {
    check_argument(label >= 0 && label < classes, "There is a label ", label, " among ", classes,
                   " classes; binary and categorical ones must be 0 to classes - 1");
  }
}

void check_has_files(const FolderIndex& index, const io::Path& directory, std::string_view what) {
  check_argument(!index.files.empty(), "There are no ", what, " in ", directory.string(),
                 "; files named .bmp, .gif, .jpeg, .jpg and .png count");
}

/// The index of the folder, cut in two; the second part may be empty.
std::pair<FolderIndex, FolderIndex> parts_of(const io::Path& directory,
                                             const ImageFolderOptions& options) {
  check_options(options);
  const auto files = options.files ? options.files : io::posix_file_system();
  FolderIndex index = image::index_folder(*files, directory,
                                          {.labels_from = options.labels_from,
                                           .labels = options.labels,
                                           .class_names = options.class_names,
                                           .follow_links = options.follow_links});
  check_has_files(index, directory, "images");
  check_labels(index, options.label_mode);
  if (options.shuffle) {
    index = image::shuffled(std::move(index), options.seed.value_or(0));
  }
  if (!options.subset) return {std::move(index), FolderIndex()};
  auto parts = image::split(index, *options.validation_split);
  if (*options.subset != Subset::kValidation) {
    check_has_files(parts.first, directory, "images for training");
  }
  if (*options.subset != Subset::kTraining) {
    check_has_files(parts.second, directory, "images for validation");
  }
  if (*options.subset == Subset::kTraining) parts.second = {};
  if (*options.subset == Subset::kValidation) parts.first = std::exchange(parts.second, {});
  return parts;
}

/// The numbers of the files and their loader.
struct Source {
  data::Dataset<std::int64_t> numbers;
  std::shared_ptr<const ImageLoader> loader;
  data::MapOptions map;
};

Source source_of(const FolderIndex& index, const ImageFolderOptions& options) {
  const auto list = std::make_shared<const data::internal::FileList>(index.files, "image_folder");
  auto numbers = data::internal::file_elements<std::int64_t>(
      list, [](std::uint64_t file) { return static_cast<std::int64_t>(file); });
  if (options.shuffle) {
    // Numbers are small, so the buffer holds all of them: the shuffle is uniform.
    numbers = numbers.shuffle(
        data::ShuffleOptions{.buffer_size = numbers.cardinality(), .seed = options.seed});
  }
  auto loader = std::make_shared<const ImageLoader>(list, options);
  data::MapOptions map{.parallelism = options.parallelism, .name = loader->describe()};
  return {std::move(numbers), std::move(loader), std::move(map)};
}

data::Dataset<LabeledExample> examples_of(const FolderIndex& index,
                                          const ImageFolderOptions& options) {
  auto [numbers, loader, map] = source_of(index, options);
  auto labels = std::make_shared<const std::vector<std::int64_t>>(index.labels);
  return numbers.map(
      [loader = loader, labels](std::int64_t number, data::ElementContext& context) {
        return LabeledExample{loader->load(number, context),
                              (*labels)[static_cast<std::size_t>(number)]};
      },
      map);
}

at::Tensor encoded(const at::Tensor& labels, LabelMode mode, std::int64_t classes) {
  if (mode == LabelMode::kCategorical) return input::one_hot(labels, classes);
  return labels.to(at::kFloat).unsqueeze(-1);
}

data::Dataset<LabeledBatch> batches_of(const FolderIndex& index,
                                       const ImageFolderOptions& options) {
  auto batches = examples_of(index, options).batch(options.batch_size);
  if (options.label_mode != LabelMode::kInt) {
    const auto classes = static_cast<std::int64_t>(index.class_names.size());
    const bool is_binary = options.label_mode == LabelMode::kBinary;
    batches = batches.map(
        [mode = options.label_mode, classes](LabeledBatch batch) {
          batch.labels = encoded(batch.labels, mode, classes);
          return batch;
        },
        {.name = is_binary ? "binary_labels" : str_cat("categorical_labels(", classes, ")")});
  }
  return batches.prefetch(data::kAutotune);
}

data::Dataset<at::Tensor> unlabeled_batches_of(const FolderIndex& index,
                                               const ImageFolderOptions& options) {
  auto [numbers, loader, map] = source_of(index, options);
  return numbers
      .map(
          [loader = loader](std::int64_t number, data::ElementContext& context) {
            return loader->load(number, context);
          },
          map)
      .batch(options.batch_size)
      .prefetch(data::kAutotune);
}

template <class T>
using MakeDataset = data::Dataset<T> (*)(const FolderIndex&, const ImageFolderOptions&);

template <class T>
ImageFolder<T> folder_of(const io::Path& directory, const ImageFolderOptions& options,
                         MakeDataset<T> make) {
  ImageFolderOptions in_order = options;
  in_order.shuffle = false;
  auto [first, second] = parts_of(directory, options);
  const bool is_validation = options.subset == Subset::kValidation;
  ImageFolder<T> folder{.dataset = make(first, is_validation ? in_order : options),
                        .class_names = first.class_names};
  if (!second.files.empty()) folder.validation = make(second, in_order);
  folder.file_paths = std::move(first.files);
  folder.validation_file_paths = std::move(second.files);
  return folder;
}

void check_has_labels(const ImageFolderOptions& options) {
  check_argument(options.labels_from != image::LabelSource::kNone,
                 "A labeled dataset needs labels; for images alone call images_from_directory");
}

}  // namespace

ImageFolder<LabeledBatch> image_dataset_from_directory(const io::Path& directory,
                                                       const ImageFolderOptions& options) {
  check_has_labels(options);
  return folder_of<LabeledBatch>(directory, options, batches_of);
}

ImageFolder<LabeledExample> image_examples_from_directory(const io::Path& directory,
                                                          const ImageFolderOptions& options) {
  check_has_labels(options);
  check_argument(options.label_mode == LabelMode::kInt,
                 "image_examples_from_directory: single examples have integer labels; encode them "
                 "in a map, or take batches");
  return folder_of<LabeledExample>(directory, options, examples_of);
}

ImageFolder<at::Tensor> images_from_directory(const io::Path& directory,
                                              ImageFolderOptions options) {
  options.labels_from = image::LabelSource::kNone;
  options.label_mode = LabelMode::kInt;
  return folder_of<at::Tensor>(directory, options, unlabeled_batches_of);
}

}  // namespace brigade::input
