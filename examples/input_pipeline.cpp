// An input pipeline from files to batches: records are written, read by several threads, parsed,
// shuffled, augmented and batched. Prints the statistics of each step, saves the iterator in the
// middle and resumes from another one. Exits with 1 if that does not continue exactly.
//   example_input_pipeline [DIRECTORY [EXAMPLES [FOLDER]]]
#include <brigade/brigade.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace bg = brigade;

namespace {

constexpr std::int64_t kFiles = 4;
constexpr std::int64_t kBatch = 64;

/// A tf.train.Example, which TensorFlow reads too: the pixels as bytes, and the label.
std::string record_of(const bg::input::LabeledExample& example) {
  const at::Tensor pixels = bg::input::convert_image_dtype(example.features, at::kByte);
  bg::data::Example record;
  record.features["image"] =
      bg::data::BytesList{{static_cast<const char*>(pixels.const_data_ptr()), pixels.nbytes()}};
  record.features["label"] = bg::data::Int64List{example.label};
  return bg::data::serialize(record);
}

void write_files(const bg::data::Dataset<bg::input::LabeledExample>& examples,
                 const std::string& folder) {
  std::filesystem::create_directories(folder);
  for (std::int64_t file = 0; file < kFiles; ++file) {
    bg::data::write_records(examples.shard(kFiles, file).map(record_of),
                            folder + "/train-" + std::to_string(file) + ".tfrecord");
  }
}

/// The image as floats, randomly flipped by the generator of this element, so that threads and
/// restarts change nothing.
bg::input::LabeledExample augment(const bg::input::NamedTensors& example,
                                  bg::data::ElementContext& context) {
  at::Tensor image = bg::input::convert_image_dtype(example["image"], at::kFloat);
  if (bg::image::random_flip(context.rng) == bg::image::Flip::kHorizontal) image = image.flip({2});
  return {image, example["label"].item<std::int64_t>()};
}

bg::data::Dataset<bg::input::LabeledBatch> batches_of(const std::string& folder) {
  const bg::input::ExampleFeatures parse({
      {"image", bg::input::RawFeature{.dtype = at::kByte, .shape = {{1, 28, 28}}}},
      {"label", bg::data::FixedLenFeature{.kind = bg::data::FeatureKind::kInt64}},
  });
  return bg::data::list_files({folder + "/train-*.tfrecord"})  // another order each epoch
      .interleave([](const bg::io::Path& file) { return bg::data::records({file}); },
                  {.cycle_length = kFiles, .parallelism = bg::data::kAutotune})
      .shuffle(1000)  // bytes, which are smaller than the floats
      .map(parse)
      .map(augment, {.parallelism = bg::data::kAutotune})
      .batch(kBatch)
      .prefetch(bg::data::kAutotune);
}

std::vector<bg::input::LabeledBatch> rest_of(
    bg::data::Iterator<bg::input::LabeledBatch>& iterator) {
  std::vector<bg::input::LabeledBatch> batches;
  while (auto batch = iterator.next()) batches.push_back(std::move(*batch));
  return batches;
}

bool are_equal(const std::vector<bg::input::LabeledBatch>& one,
               const std::vector<bg::input::LabeledBatch>& other) {
  bool is_equal = one.size() == other.size();
  for (std::size_t i = 0; is_equal && i < one.size(); ++i) {
    is_equal = one[i].features.equal(other[i].features) && one[i].labels.equal(other[i].labels);
  }
  return is_equal;
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const char* directory = argc > 1 ? argv[1] : bg::input::kFashionMnistDirectory;
    const std::int64_t examples = argc > 2 ? std::atoll(argv[2]) : 60'000;
    const std::string folder = argc > 3 ? argv[3] : "input_pipeline_run";
    write_files(bg::input::fashion_mnist(directory).take(examples), folder);

    const auto batches = batches_of(folder);
    std::cout << batches.describe() << "\n\n";

    // An iterator that counts what each step does.
    using bg::data::StagesOptions;
    const auto stages =
        std::make_shared<bg::data::Stages>(StagesOptions{.count = StagesOptions::Count::kAll});
    auto iterator = batches.iterator({.seed = 7, .stages = stages});
    for (std::int64_t passed = 0; passed < examples / kBatch / 2; ++passed) iterator.next();

    // In a training, `TrainingState::add_iterator` saves this position in checkpoints.
    const bg::io::StateTree position = iterator.save();
    const auto rest = rest_of(iterator);
    std::cout << bg::data::describe(iterator.stats()) << "\n";

    auto other = batches_of(folder).iterator();  // in another process, perhaps
    other.restore(position);
    const bool is_exact = are_equal(rest_of(other), rest);
    std::cout << (is_exact ? "the same " : "NOT the same ") << rest.size()
              << " batches followed after restoring\n";

    iterator.start_next_epoch();
    const auto next_epoch = rest_of(iterator);
    std::cout << "the next epoch: " << next_epoch.size() << " batches in another order\n";
    std::filesystem::remove_all(folder);
    return is_exact ? 0 : 1;
  });
}
