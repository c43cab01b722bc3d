#include "apps/brigade/data_flags.h"

#include <algorithm>
#include <cmath>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/json_values.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/image/folder_index.h"
#include "brigade/image/rand_augment.h"
#include "brigade/image/trivial_augment.h"
#include "brigade/input/cifar.h"
#include "brigade/input/image_check.h"
#include "brigade/input/image_folder.h"
#include "brigade/input/image_tensor.h"
#include "brigade/input/image_transform.h"
#include "brigade/input/mixup.h"
#include "brigade/input/synthetic.h"
#include "brigade/models/registry.h"

namespace brigade::command {
namespace {

constexpr std::int64_t kDefaultBatch = 128;
constexpr std::int64_t kSyntheticTrain = 10'000;
constexpr std::int64_t kSyntheticTest = 2'000;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kMnistPadding = 2;
constexpr double kErasedImages = 0.25;
constexpr std::int64_t kMostMapThreads = 1024;
// The center of this part of the shorter side is evaluated (224 of 256), except of small images.
constexpr double kCenterFraction = 0.875;
constexpr std::int64_t kSmallImage = 128;
constexpr std::array<float, 4> kHalf = {0.5F, 0.5F, 0.5F, 0};
constexpr std::array<float, 4> kHalfDeviation = {0.5F, 0.5F, 0.5F, 1};

const std::vector<std::string> kDatasets = {"cifar10",      "cifar100", "fashion_mnist",
                                            "image_folder", "mnist",    "synthetic"};
const std::vector<std::string> kAugmentations = {
    "none",         "flip",           "random_crop",    "random_resized_crop",
    "rand_augment", "random_erasing", "trivial_augment"};

// Both splits come from one draw, so that they share the patterns of the classes.
data::Dataset<input::LabeledExample> synthetic_split(std::int64_t train, input::Split split,
                                                     const ImageInput& input) {
  const auto all = input::synthetic(train + kSyntheticTest,
                                    {input.shape.begin(), input.shape.end()}, input.classes);
  return split == input::Split::kTrain ? all.take(train) : all.skip(train);
}

/// The library's errors know no flags.
template <class Read>
auto with_flag(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    throw UsageError(error.what(), " (--data-dir)");
  }
}

data::Dataset<input::LabeledExample> load_files(const DataFlags& flags, input::Split split,
                                                input::ImageOutput output) {
  return with_flag([&] {
    if (flags.dataset == "cifar10") return input::cifar10(flags.data_dir, split, output);
    if (flags.dataset == "cifar100") {
      return input::cifar100(flags.data_dir, split, input::Cifar100Labels::kFine, output);
    }
    if (flags.dataset == "mnist") return input::mnist(flags.data_dir, split, output);
    return input::fashion_mnist(
        flags.data_dir.empty() ? input::kFashionMnistDirectory : flags.data_dir, split, output);
  });
}

/// The folder of a split: "train", and "val", "validation" or "test".
io::Path split_folder(const DataFlags& flags, input::Split split) {
  const io::Path folder = flags.data_dir;
  std::vector<std::string> names = {"train"};
  if (split == input::Split::kTest) names = {"val", "validation", "test"};
  for (const std::string& name : names)
    if (io::posix_file_system()->exists(folder / name)) return folder / name;
  throw UsageError("--data-dir ", base::quoted(flags.data_dir), " has no folder ",
                   base::join(names, " or "),
                   "; image_folder reads train/CLASS/*.jpg, and val/CLASS/*.jpg");
}

/// Those of the training split, whose order gives them their numbers.
std::vector<std::string> class_names(const DataFlags& flags) {
  return with_flag([&] {
    const io::Path folder = split_folder(flags, input::Split::kTrain);
    return image::index_folder(*io::posix_file_system(), folder).class_names;
  });
}

input::ImageTransform made(const input::EvaluationTransformOptions& options) {
  return input::evaluation_transform(options);
}
input::ImageTransform made(const input::TrainingTransformOptions& options) {
  return input::training_transform(options);
}

/// The transform with these options. Its name does not depend on where images are normalized, which
/// may be another device after a restart.
template <class Options>
input::ImageTransform transform_of(const ImageInput& input, Options options) {
  const std::string name = made(options).name;
  options.output = input.output;
  input::ImageTransform transform = made(options);
  transform.name = name;
  return transform;
}

input::ImageFolderOptions folder_options(const DataFlags& flags, const ImageInput& input) {
  return {.class_names = class_names(flags),
          .color_mode = input.shape[0] == 1 ? input::ColorMode::kGrayscale : input::ColorMode::kRgb,
          .shuffle = false,
          .transform = transform_of(
              input, input::EvaluationTransformOptions{.resize = input.resize,
                                                       .crop = {input.shape[1], input.shape[2]},
                                                       .mean = input.mean,
                                                       .deviation = input.deviation})};
}

input::ImageFolder<input::LabeledExample> read_folder(const DataFlags& flags, input::Split split,
                                                      const input::ImageFolderOptions& options) {
  return with_flag([&] {
    auto folder = input::image_examples_from_directory(split_folder(flags, split), options);
    input::check_image_files(folder.file_paths);
    return folder;
  });
}

/// An eighth of the image (He et al., 2015), less for MNIST's, which have a margin.
std::int64_t crop_padding(const ImageInput& input) {
  return input.shape[1] <= 28 ? kMnistPadding : input.shape[1] / 8;
}

data::Dataset<input::LabeledExample> first_of(data::Dataset<input::LabeledExample> examples,
                                              std::optional<std::int64_t> count) {
  return count ? examples.take(*count) : examples;
}

}  // namespace

void DataFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Data");
  group.add("--dataset", dataset, base::str_cat("The data: ", base::join(kDatasets, ", ")));
  group.add(
      "--data-dir", data_dir,
      base::str_cat(
          "Folder with the four idx files, plain or .gz (fashion_mnist: ",
          input::kFashionMnistDirectory,
          "), the binary files of CIFAR, or train/CLASS/*.jpg and val/CLASS/*.jpg (image_folder)"));
  group.add("--train-examples", train_examples,
            base::str_cat("Train on the first N examples only (synthetic: generate N, by default ",
                          kSyntheticTrain, ")"));
  group.add("--image-size", image_size,
            "Height and width of the images that the model gets (image_folder, synthetic; default "
            "the size that the model was made for)");
  group.add("--resize", resize,
            "Length of the shorter side of an image before its center is cut out (image_folder; "
            "default 256 for images of 224, in proportion; small images are not cut)");
  group.add("--classes", classes,
            "Number of classes (default: of the data). Must be that of the folders");
}

void DataFlags::add_normalize_to(CLI::App& app) {
  FlagGroup group(app, "Data");
  group.add(
      "--normalize", normalize,
      "Where the bytes of images become floats: host, device (the host sends bytes), or auto, "
      "which is device on GPUs where augmentation allows it. The values are the same");
}

void DataFlags::check() const {
  check_choice("dataset", dataset, kDatasets);
  check_choice("place to normalize", normalize, {"auto", "host", "device"});
  if (train_examples) check_at_least("--train-examples", *train_examples, 1);
  if (classes) check_at_least("--classes", *classes, 1);
  if (image_size) check_at_least("--image-size", *image_size, 1);
  if (resize) check_at_least("--resize", *resize, image_size.value_or(1));
  const bool is_sized = has_files() || dataset == "synthetic";
  if (image_size && !is_sized) {
    throw UsageError("dataset ", dataset, " has images of one size; leave out --image-size");
  }
  if (resize && !has_files()) throw UsageError("--resize is for dataset image_folder");
  if (train_examples && has_files())
    throw UsageError("dataset image_folder has no --train-examples; give a smaller folder");
  if (dataset != "fashion_mnist" && dataset != "synthetic" && data_dir.empty()) {
    throw UsageError("dataset ", dataset, " needs --data-dir, the folder with ",
                     dataset == "mnist" ? "its four idx files"
                     : has_files()      ? "train/CLASS/*.jpg and val/CLASS/*.jpg"
                                        : "its binary files");
  }
  if (dataset == "synthetic" && !data_dir.empty()) {
    throw UsageError("dataset synthetic is generated and reads no folder; leave out --data-dir");
  }
}

ImageInput DataFlags::image_input(const std::string& model) const {
  const std::vector<std::int64_t> usual = models::image_shape(model);
  ImageInput input;
  if (dataset == "cifar10" || dataset == "cifar100") input.shape = {3, 32, 32};
  if (has_files() || dataset == "synthetic") {
    std::copy(usual.begin(), usual.end(), input.shape.begin());
    if (image_size) input.shape[1] = input.shape[2] = *image_size;
  }
  const std::int64_t size = input.shape[1];
  input.resize = resize.value_or(
      size < kSmallImage ? size : std::llround(static_cast<double>(size) / kCenterFraction));
  if (model.starts_with("inception")) {
    input.mean = kHalf;
    input.deviation = kHalfDeviation;
  }
  input.classes = dataset == "cifar100" ? 100 : kClasses;
  if (has_files()) input.classes = static_cast<std::int64_t>(class_names(*this).size());
  if (dataset == "synthetic") input.classes = classes.value_or(kClasses);
  if (classes && *classes != input.classes) {
    throw UsageError("--classes is ", *classes, ", and dataset ", dataset, " has ", input.classes,
                     "; leave out --classes");
  }
  return input;
}

data::Dataset<input::LabeledExample> DataFlags::load(input::Split split,
                                                     const ImageInput& input) const {
  return load_with_paths(split, input).examples;
}

LoadedExamples DataFlags::load_with_paths(input::Split split, const ImageInput& input) const {
  if (dataset == "synthetic")
    return {synthetic_split(train_examples.value_or(kSyntheticTrain), split, input)};
  if (!has_files()) {
    const auto examples = load_files(*this, split, input.output);
    return {split == input::Split::kTrain ? first_of(examples, train_examples) : examples};
  }
  const auto folder = read_folder(*this, split, folder_options(*this, input));
  LoadedExamples loaded{folder.dataset};
  for (const io::Path& path : folder.file_paths)
    loaded.paths.push_back(path.lexically_relative(data_dir).generic_string());
  return loaded;
}

void DataFlags::describe(Json& configuration, const ImageInput& input) const {
  configuration["image_size"] = number_or_null(image_size);
  configuration["resize"] = number_or_null(resize);
  configuration["classes"] = input.classes;
}

void PipelineFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Data");
  group.add("--shuffle-buffer", shuffle_buffer,
            "Size of the shuffle buffer in examples; 1: no shuffling (image_folder: the names of "
            "all files are shuffled)");
  group.add("--augment", augment,
            base::str_cat("Random augmentation of each image, separated by commas: ",
                          base::join(kAugmentations, ", ")));
  group.add("--mixup", mixup,
            "Mix the examples of a batch, with weights from a beta distribution with this "
            "parameter, such as 0.2 (with --cutmix: half of the batches)");
  group.add("--cutmix", cutmix,
            "Put windows of a batch's images into others, of areas from a beta distribution with "
            "this parameter, such as 1");
  group.add("--map-threads", map_threads,
            "Threads that augment, or auto: as many as the training needs, of the cores that its "
            "replicas leave free. The result is the same");
}

bool PipelineFlags::augments_by(const std::string& name) const {
  const auto names = base::split(augment, ',');
  return std::find(names.begin(), names.end(), name) != names.end();
}

void PipelineFlags::check(const DataFlags& data) const {
  check_at_least("--shuffle-buffer", shuffle_buffer, 1);
  const auto names = base::split(augment, ',');
  for (const std::string& name : names) check_choice("augmentation", name, kAugmentations);
  if (names.size() > 1 && augments_by("none"))
    throw UsageError("--augment is ", augment, "; leave out none");
  for (const char* name : {"rand_augment", "trivial_augment"}) {
    if (augments_by(name) && !augments_by("random_resized_crop")) {
      throw UsageError("--augment ", name, " changes the windows of ",
                       "random_resized_crop; give both");
    }
  }
  if (augments_by("rand_augment") && augments_by("trivial_augment"))
    throw UsageError("--augment takes rand_augment or trivial_augment, not both");
  for (const auto& [flag, alpha] : {std::pair("--mixup", mixup), std::pair("--cutmix", cutmix)}) {
    if (alpha && !(*alpha > 0.0 && *alpha <= 1e6))
      throw UsageError(flag, " is ", *alpha, "; it must be above 0");
  }
  if (augments_by("random_resized_crop") && !data.has_files()) {
    throw UsageError("--augment random_resized_crop is for dataset image_folder; ", data.dataset,
                     " has images of one size: give random_crop");
  }
  map_parallelism();
}

std::int64_t PipelineFlags::map_parallelism() const {
  if (map_threads == "auto") return data::kAutotune;
  const auto threads = base::parse_int(map_threads);
  if (!threads || *threads < 1 || *threads > kMostMapThreads) {
    throw UsageError("--map-threads is ", map_threads, "; it must be 1 to ", kMostMapThreads,
                     ", or auto");
  }
  return *threads;
}

data::Dataset<input::LabeledExample> PipelineFlags::load_folder(const DataFlags& data,
                                                                const ImageInput& input) const {
  input::ImageFolderOptions options = folder_options(data, input);
  options.shuffle = shuffle_buffer > 1;
  options.parallelism = map_parallelism();
  if (augments_by("random_resized_crop")) {
    input::TrainingTransformOptions transform{.size = {input.shape[1], input.shape[2]},
                                              .flip_probability = augments_by("flip") ? 0.5 : 0.0,
                                              .mean = input.mean,
                                              .deviation = input.deviation};
    if (augments_by("rand_augment")) {
      transform.augment_name = "rand_augment";
      transform.augment = [](const image::ImageView& image, base::CounterRng& rng) {
        return image::rand_augment(image, {}, rng);
      };
    }
    if (augments_by("trivial_augment")) {
      transform.augment_name = "trivial_augment";
      transform.augment = [](const image::ImageView& image, base::CounterRng& rng) {
        return image::trivial_augment(image, {}, rng);
      };
    }
    options.transform = transform_of(input, transform);
  }
  return read_folder(data, input::Split::kTrain, options).dataset;
}

data::Dataset<input::LabeledExample> PipelineFlags::load(const DataFlags& data,
                                                         const ImageInput& input) const {
  data::Dataset<input::LabeledExample> examples =
      data.has_files() ? load_folder(data, input) : data.load(input::Split::kTrain, input);
  if (!data.has_files() && shuffle_buffer > 1) examples = examples.shuffle(shuffle_buffer);
  if (augments_by("random_crop")) {
    examples = examples.map(
        [padding = crop_padding(input)](input::LabeledExample example,
                                        data::ElementContext& context) {
          example.features = input::random_crop(example.features, {.padding = padding}, context);
          return example;
        },
        {.parallelism = map_parallelism(), .name = "random_crop"});
  }
  if (augments_by("flip") && !augments_by("random_resized_crop")) {
    examples = examples.map(
        [](input::LabeledExample example, data::ElementContext& context) {
          example.features = input::random_horizontal_flip(example.features, context);
          return example;
        },
        {.parallelism = map_parallelism(), .name = "flip"});
  }
  if (augments_by("random_erasing")) {
    examples = examples.map(
        [](input::LabeledExample example, data::ElementContext& context) {
          example.features =
              input::random_erasing(example.features, {.probability = kErasedImages}, context);
          return example;
        },
        {.parallelism = map_parallelism(), .name = "random_erasing"});
  }
  return examples;
}

std::optional<std::string> PipelineFlags::need_of_floats(const DataFlags& data) const {
  if (mixup || cutmix) return "the host mixes images as floats; leave out --mixup and --cutmix";
  // Its zeros are the mean after the normalization of files, and black before it.
  for (const char* name : {"random_crop", "random_erasing"}) {
    if (data.has_files() && augments_by(name))
      return base::str_cat("--augment ", name,
                           " fills in normalized values; leave out one of both");
  }
  return std::nullopt;
}

data::Dataset<input::LabeledBatch> PipelineFlags::mix(data::Dataset<input::LabeledBatch> batches,
                                                      const ImageInput& input) const {
  if (!mixup && !cutmix) return batches;
  return batches.map(
      [mixup = mixup, cutmix = cutmix, classes = input.classes](const input::LabeledBatch& batch,
                                                                data::ElementContext& context) {
        const bool by_mixup = mixup && (!cutmix || context.rng.uniform() < 0.5);
        return by_mixup ? input::mixup(batch, {.num_classes = classes, .alpha = *mixup}, context)
                        : input::cutmix(batch, {.num_classes = classes, .alpha = *cutmix}, context);
      },
      {.name = base::str_cat("mix(", mixup.value_or(0.0), ", ", cutmix.value_or(0.0), ")")});
}

void PipelineFlags::describe(Json& configuration) const {
  configuration["augment"] = augment;
  configuration["mixup"] = number_or_null(mixup);
  configuration["cutmix"] = number_or_null(cutmix);
  configuration["shuffle_buffer"] = shuffle_buffer;
}

void BatchFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Steps");
  group.add("--batch-size", per_replica,
            base::str_cat("Examples of each replica in a step (default ", kDefaultBatch, ")"));
  group.add("--global-batch-size", global, "Examples of all replicas together in a step");
}

void BatchFlags::check() const {
  if (per_replica && global) {
    throw UsageError(
        "--batch-size (of a replica) and --global-batch-size (of all) exclude each other");
  }
  if (per_replica) check_at_least("--batch-size", *per_replica, 1);
  if (global) check_at_least("--global-batch-size", *global, 1);
}

std::int64_t BatchFlags::global_size(int replicas) const {
  if (global) return *global;
  return per_replica.value_or(kDefaultBatch) * replicas;
}

}  // namespace brigade::command
