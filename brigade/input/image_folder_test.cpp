#include "brigade/input/image_folder.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "brigade/base/error.h"
#include "brigade/data/sources/files.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/image/crop.h"
#include "brigade/image/decode.h"
#include "brigade/image/jpeg.h"
#include "brigade/image/png.h"
#include "brigade/image/testing/golden.h"
#include "brigade/input/image_tensor.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::input {
namespace {

using image::testing::smooth_image;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// /pets with three cats (JPEG, 40 x 60) and two dogs (PNG, 30 x 20).
class ImageFolderTest : public ::testing::Test {
 protected:
  ImageFolderTest() {
    for (const char* name : {"cats/1.jpg", "cats/2.jpg", "cats/3.jpg"}) {
      add(name, image::encode_jpeg(smooth_image({40, 60}, 3)));
    }
    for (const char* name : {"dogs/1.png", "dogs/2.png"}) {
      add(name, image::encode_png(smooth_image({30, 20}, 3)));
    }
  }
  void add(const std::string& name, const std::string& bytes) {
    const io::Path path = io::Path("/pets") / name;
    files_->create_directories(path.parent_path());
    const auto file = files_->create(path, io::CreateMode::kTruncate);
    file->write(io::as_bytes(bytes));
    file->close();
  }
  ImageFolderOptions options() const {
    ImageFolderOptions options;
    options.files = files_;
    options.image_size = {8, 10};
    options.shuffle = false;
    options.parallelism = 2;
    return options;
  }
  std::string message(const ImageFolderOptions& options) const {
    try {
      image_dataset_from_directory("/pets", options);
      return "no error";
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
};

std::vector<LabeledBatch> all_batches(const data::Dataset<LabeledBatch>& dataset) {
  std::vector<LabeledBatch> batches;
  for (const auto& batch : dataset) batches.push_back(batch);
  return batches;
}

std::vector<std::int64_t> labels_of(const data::Dataset<LabeledExample>& dataset,
                                    std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::int64_t> labels;
  auto iterator = dataset.iterator({.seed = seed, .epoch = epoch});
  while (auto example = iterator.next()) labels.push_back(example->label);
  return labels;
}

TEST_F(ImageFolderTest, ATransformReplacesTheResizing) {
  ImageFolderOptions given = options();
  given.transform = evaluation_transform({.resize = 12, .crop = {8, 8}});
  const auto folder = image_examples_from_directory("/pets", given);
  const auto first = folder.dataset.iterator().next();
  const image::Image stored =
      image::decode_image(files_->read("/pets/cats/1.jpg"), {.channels = 3});
  base::CounterRng rng(0);
  const concurrency::CancelToken cancel;
  data::ElementContext context{.epoch = 0, .index = 0, .rng = rng, .cancel = cancel};
  EXPECT_TRUE(at::equal(first->features, given.transform.apply(stored.view(), context)));
}

TEST_F(ImageFolderTest, ARandomTransformGivesTheSameForAnyNumberOfThreads) {
  const auto features = [&](std::int64_t threads) {
    ImageFolderOptions given = options();
    given.parallelism = threads;
    given.transform = training_transform({.size = {8, 8}});
    std::vector<at::Tensor> all;
    for (const auto& example : image_examples_from_directory("/pets", given).dataset)
      all.push_back(example.features);
    return all;
  };
  const auto one = features(1), three = features(3);
  ASSERT_EQ(one.size(), 5u);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], three[i])) << i;
}

TEST_F(ImageFolderTest, GivesBatchesOfResizedImagesWithTheirLabels) {
  auto wanted = options();
  wanted.batch_size = 4;
  const auto pets = image_dataset_from_directory("/pets", wanted);
  EXPECT_THAT(pets.class_names, ElementsAre("cats", "dogs"));
  EXPECT_EQ(pets.file_paths.front(), io::Path("/pets/cats/1.jpg"));
  EXPECT_EQ(pets.dataset.cardinality(), 2);
  EXPECT_FALSE(pets.validation.has_value());
  const auto batches = all_batches(pets.dataset);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].features.sizes(), (at::IntArrayRef{4, 3, 8, 10}));
  EXPECT_TRUE(at::equal(batches[0].labels, at::tensor({0, 0, 0, 1}, at::kLong)));
  EXPECT_EQ(batches[1].features.size(0), 1);
  const auto cat = image::resize(image::decode_image(files_->read("/pets/cats/1.jpg")), {8, 10});
  EXPECT_FLOAT_EQ(batches[0].features[1][2][3][4].item<float>(), cat.at(3, 4, 2));
}

TEST_F(ImageFolderTest, AppliesLayoutColorAndAspectRatio) {
  auto wanted = options();
  wanted.layout = image::Layout::kChannelsLast;
  wanted.color_mode = ColorMode::kGrayscale;
  wanted.aspect_ratio = AspectRatio::kCrop;
  wanted.interpolation = image::Interpolation::kArea;
  const auto batch = all_batches(image_dataset_from_directory("/pets", wanted).dataset).at(0);
  ASSERT_EQ(batch.features.sizes(), (at::IntArrayRef{5, 8, 10, 1}));
  const auto dog = image::decode_image(files_->read("/pets/dogs/1.png"), {.channels = 1});
  const auto middle = dog.view().window(image::window_of_aspect(dog.size(), {8, 10}));
  const auto expected = image::resize(middle, {8, 10}, image::Interpolation::kArea);
  EXPECT_FLOAT_EQ(batch.features[3][7][9][0].item<float>(), expected.at(7, 9, 0));
  wanted.color_mode = ColorMode::kRgba;
  EXPECT_EQ(
      all_batches(image_dataset_from_directory("/pets", wanted).dataset).at(0).features.size(3), 4);
}

TEST_F(ImageFolderTest, ScaledDecodingGivesNearlyTheSame) {
  auto wanted = options();
  wanted.interpolation = image::Interpolation::kArea;
  const auto exact = all_batches(image_dataset_from_directory("/pets", wanted).dataset).at(0);
  wanted.jpeg_decoding = JpegDecoding::kScaled;
  const auto scaled = all_batches(image_dataset_from_directory("/pets", wanted).dataset).at(0);
  EXPECT_FALSE(at::equal(scaled.features, exact.features));
  EXPECT_LT((scaled.features - exact.features).abs().max().item<float>(), 12);
}

TEST_F(ImageFolderTest, EncodesLabels) {
  auto wanted = options();
  wanted.label_mode = LabelMode::kBinary;
  EXPECT_TRUE(
      at::equal(all_batches(image_dataset_from_directory("/pets", wanted).dataset)[0].labels,
                at::tensor({0.F, 0.F, 0.F, 1.F, 1.F}).unsqueeze(1)));
  wanted.label_mode = LabelMode::kCategorical;
  const auto rows = all_batches(image_dataset_from_directory("/pets", wanted).dataset)[0].labels;
  EXPECT_EQ(rows.sizes(), (at::IntArrayRef{5, 2}));
  EXPECT_TRUE(at::equal(rows[4], at::tensor({0.F, 1.F})));
  wanted.class_names = {"dogs"};
  wanted.label_mode = LabelMode::kBinary;
  EXPECT_THAT(message(wanted), HasSubstr("exactly two classes, and there are 1: dogs"));
}

TEST_F(ImageFolderTest, ShufflesEachEpochDifferently) {
  auto wanted = options();
  wanted.shuffle = true;
  const auto pets = image_examples_from_directory("/pets", wanted);
  EXPECT_EQ(pets.dataset.cardinality(), 5);
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 12; ++epoch) {
    const auto labels = labels_of(pets.dataset, 3, epoch);
    EXPECT_EQ(std::count(labels.begin(), labels.end(), 1), 2);
    EXPECT_EQ(labels, labels_of(pets.dataset, 3, epoch));
    orders.insert(labels);
  }
  EXPECT_GT(orders.size(), 2U);
}

TEST_F(ImageFolderTest, SplitsOffValidationWithTheSameSeed) {
  auto wanted = options();
  wanted.shuffle = true;
  wanted.seed = 9;
  wanted.validation_split = 0.4;
  wanted.subset = Subset::kBoth;
  const auto both = image_dataset_from_directory("/pets", wanted);
  ASSERT_TRUE(both.validation.has_value());
  EXPECT_EQ(both.file_paths.size(), 3U);
  EXPECT_EQ(both.validation_file_paths.size(), 2U);
  wanted.subset = Subset::kTraining;
  const auto training = image_dataset_from_directory("/pets", wanted);
  EXPECT_EQ(training.file_paths, both.file_paths);
  EXPECT_FALSE(training.validation.has_value());
  wanted.subset = Subset::kValidation;
  const auto validation = image_dataset_from_directory("/pets", wanted);
  EXPECT_EQ(validation.file_paths, both.validation_file_paths);
  EXPECT_TRUE(at::equal(all_batches(validation.dataset)[0].features,
                        all_batches(*both.validation)[0].features));
  wanted.validation_split = 0.1;
  EXPECT_THAT(message(wanted), HasSubstr("no images for validation"));
}

TEST_F(ImageFolderTest, ACorruptFileIsOneElementThatFailsWithItsName) {
  add("cats/2.jpg", "\xff\xd8\xff and nothing more");
  add("dogs/1.gif", "GIF89a");
  const auto pets = image_examples_from_directory("/pets", options());
  auto iterator = pets.dataset.iterator();
  EXPECT_TRUE(iterator.next());
  try {
    iterator.next();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("/pets/cats/2.jpg: JPEG: broken or cut short at byte "));
  }
  EXPECT_EQ(iterator.next()->label, 0);
  EXPECT_THROW(iterator.next(), Error);
  EXPECT_EQ(iterator.next()->label, 1);
}

TEST_F(ImageFolderTest, ResumesAtASavedPosition) {
  auto wanted = options();
  wanted.shuffle = true;
  wanted.batch_size = 2;
  const auto pets = image_dataset_from_directory("/pets", wanted);
  auto iterator = pets.dataset.iterator({.seed = 4});
  iterator.next();
  const auto state = iterator.save();
  const auto expected = iterator.next();
  auto other = pets.dataset.iterator({.seed = 4});
  other.restore(state);
  EXPECT_TRUE(at::equal(other.next()->features, expected->features));
}

TEST_F(ImageFolderTest, WithoutLabelsGivesImages) {
  auto wanted = options();
  wanted.batch_size = 3;
  const auto pets = images_from_directory("/pets", wanted);
  EXPECT_TRUE(pets.class_names.empty());
  EXPECT_EQ(pets.dataset.sharding().files, 5);
  std::vector<std::int64_t> sizes;
  for (const auto& batch : pets.dataset) sizes.push_back(batch.size(0));
  EXPECT_THAT(sizes, ElementsAre(3, 2));
}

TEST_F(ImageFolderTest, ErrorsNameTheProblem) {
  auto wanted = options();
  wanted.validation_split = 0.2;
  EXPECT_THAT(message(wanted), HasSubstr("set both or none"));
  wanted.subset = Subset::kBoth;
  wanted.shuffle = true;
  EXPECT_THAT(message(wanted), HasSubstr("need a seed"));
  wanted = options();
  wanted.labels_from = image::LabelSource::kList;
  wanted.labels = {0, 1, 5, 0, 1};
  EXPECT_EQ(message(wanted), "no error");
  wanted.label_mode = LabelMode::kCategorical;
  EXPECT_THAT(message(wanted), HasSubstr("a label 5 among 3 classes"));
  wanted = options();
  wanted.batch_size = 0;
  EXPECT_THAT(message(wanted), HasSubstr("batch_size is 0"));
  wanted = options();
  wanted.labels_from = image::LabelSource::kNone;
  EXPECT_THAT(message(wanted), HasSubstr("images_from_directory"));
  files_->create_directories("/empty/cats");
  EXPECT_THROW(image_dataset_from_directory("/empty", options()), Error);
}

using FileIndices = std::vector<std::int64_t>;

data::Dataset<std::int64_t> file_numbers(data::internal::FileListPtr files) {
  return data::internal::file_elements<std::int64_t>(
      std::move(files), [](std::uint64_t file) { return static_cast<std::int64_t>(file); });
}

data::internal::FileListPtr list_of(std::vector<io::Path> paths) {
  return std::make_shared<const data::internal::FileList>(std::move(paths), "images");
}

FileIndices epoch_numbers(const data::Dataset<std::int64_t>& dataset,
                          const data::IteratorOptions& options) {
  FileIndices numbers;
  auto iterator = dataset.iterator(options);
  while (auto number = iterator.next()) numbers.push_back(*number);
  return numbers;
}

TEST(FileNumbers, KeepTheContractOfSources) {
  const auto files = list_of({"a", "b", "c", "d", "e"});
  data::testing::expect_contract(file_numbers(files), FileIndices{0, 1, 2, 3, 4});
  EXPECT_EQ(file_numbers(files).cardinality(), 5);
  EXPECT_EQ(file_numbers(files).describe(), "images(a and 4 more)");
}

TEST(FileNumbers, AreShardedByFiles) {
  const auto dataset = file_numbers(list_of({"a", "b", "c", "d", "e"}));
  EXPECT_EQ(dataset.sharding().files, 5);
  EXPECT_EQ(epoch_numbers(dataset, {.shard = {.count = 2, .index = 0}}), (FileIndices{0, 2, 4}));
  EXPECT_EQ(epoch_numbers(dataset, {.shard = {.count = 2, .index = 1}}), (FileIndices{1, 3}));
  EXPECT_EQ(epoch_numbers(dataset, {.shard = {.by = data::ShardBy::kHint, .count = 2, .index = 1}})
                .size(),
            5U);
  auto iterator = dataset.iterator({.shard = {.count = 2, .index = 0}});
  iterator.next();
  auto other = dataset.iterator({.shard = {.count = 2, .index = 0}});
  other.restore(iterator.save());
  EXPECT_EQ(other.next(), 2);
}

TEST(FileNumbers, RefuseThePositionOfOtherFiles) {
  auto iterator = file_numbers(list_of({"a", "b"})).iterator();
  EXPECT_THROW(file_numbers(list_of({"a", "c"})).iterator().restore(iterator.save()), Error);
}

}  // namespace
}  // namespace brigade::input
