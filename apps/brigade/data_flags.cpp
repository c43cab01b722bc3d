#include "apps/brigade/data_flags.h"

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "brigade/base/strings.h"
#include "brigade/input/image_tensor.h"
#include "brigade/input/synthetic.h"

namespace brigade::command {
namespace {

constexpr std::int64_t kDefaultBatch = 128;
constexpr std::int64_t kSyntheticTrain = 10'000;
constexpr std::int64_t kSyntheticTest = 2'000;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kCropPadding = 2;
constexpr std::int64_t kMostMapThreads = 1024;

// Both splits come from one draw, so that they share the patterns of the classes.
data::Dataset<input::LabeledExample> synthetic_split(std::int64_t train, input::Split split) {
  const auto all = input::synthetic(train + kSyntheticTest, {1, 28, 28}, kClasses);
  return split == input::Split::kTrain ? all.take(train) : all.skip(train);
}

/// The library's errors know no flags.
data::Dataset<input::LabeledExample> load_files(const DataFlags& flags, input::Split split) {
  try {
    if (flags.dataset == "mnist") return input::mnist(flags.data_dir, split);
    return input::fashion_mnist(
        flags.data_dir.empty() ? input::kFashionMnistDirectory : flags.data_dir, split);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    throw UsageError(base::str_cat(error.what(), " (--data-dir)"));
  }
}

}  // namespace

void DataFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Data");
  group.add("--dataset", dataset, "The data: fashion_mnist, mnist, synthetic");
  group.add("--data-dir", data_dir,
            base::str_cat("Folder with the four idx files, plain or .gz (fashion_mnist: ",
                          input::kFashionMnistDirectory, ")"));
  group.add("--train-examples", train_examples,
            base::str_cat("Train on the first N examples only (synthetic: generate N, by default ",
                          kSyntheticTrain, ")"));
}

void DataFlags::check() const {
  check_choice("dataset", dataset, {"fashion_mnist", "mnist", "synthetic"});
  if (train_examples) check_at_least("--train-examples", *train_examples, 1);
  if (dataset == "mnist" && data_dir.empty()) {
    throw UsageError("dataset mnist needs --data-dir, the folder with its four idx files");
  }
  if (dataset == "synthetic" && !data_dir.empty()) {
    throw UsageError("dataset synthetic is generated and reads no folder; leave out --data-dir");
  }
}

data::Dataset<input::LabeledExample> DataFlags::load(input::Split split) const {
  if (dataset == "synthetic") {
    return synthetic_split(train_examples.value_or(kSyntheticTrain), split);
  }
  const auto examples = load_files(*this, split);
  if (split == input::Split::kTrain && train_examples) return examples.take(*train_examples);
  return examples;
}

void PipelineFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Data");
  group.add("--shuffle-buffer", shuffle_buffer,
            "Size of the shuffle buffer in examples; 1: no shuffling");
  group.add("--augment", augment, "Random augmentation of each image: none, random_crop");
  group.add("--map-threads", map_threads,
            "Threads that augment, or auto: as many as the training needs, of the cores that "
            "its replicas leave free. The result is the same");
}

void PipelineFlags::check() const {
  check_at_least("--shuffle-buffer", shuffle_buffer, 1);
  check_choice("augmentation", augment, {"none", "random_crop"});
  map_parallelism();
}

std::int64_t PipelineFlags::map_parallelism() const {
  if (map_threads == "auto") return data::kAutotune;
  const auto threads = base::parse_int(map_threads);
  if (!threads || *threads < 1 || *threads > kMostMapThreads) {
    throw UsageError(base::str_cat("--map-threads is ", map_threads, "; it must be 1 to ",
                                   kMostMapThreads, ", or auto"));
  }
  return *threads;
}

data::Dataset<input::LabeledExample> PipelineFlags::apply(
    data::Dataset<input::LabeledExample> examples) const {
  if (shuffle_buffer > 1) examples = examples.shuffle(shuffle_buffer);
  if (augment == "none") return examples;
  return examples.map(
      [](input::LabeledExample example, data::ElementContext& context) {
        example.features = input::random_crop(example.features, {.padding = kCropPadding}, context);
        return example;
      },
      {.parallelism = map_parallelism(), .name = "random_crop"});
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
