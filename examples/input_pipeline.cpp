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
std::string record_of(const bg::LabeledExample& example) {
  const at::Tensor pixels = bg::convert_image_dtype(example.features, at::kByte);
  bg::Example record;
  record.features["image"] =
      bg::BytesList{{static_cast<const char*>(pixels.const_data_ptr()), pixels.nbytes()}};
  record.features["label"] = bg::Int64List{example.label};
  return bg::serialize(record);
}

void write_files(const bg::Dataset<bg::LabeledExample>& examples, const std::string& folder) {
  std::filesystem::create_directories(folder);
  for (std::int64_t file = 0; file < kFiles; ++file) {
    bg::write_records(examples.shard(kFiles, file).map(record_of),
                      folder + "/train-" + std::to_string(file) + ".tfrecord");
  }
}

/// The image as floats, randomly flipped by the generator of this element, so that threads and
/// restarts change nothing.
bg::LabeledExample augment(const bg::NamedTensors& example, bg::ElementContext& context) {
  at::Tensor image = bg::convert_image_dtype(example["image"], at::kFloat);
  if (bg::random_flip(context.rng) == bg::Flip::kHorizontal) image = image.flip({2});
  return {image, example["label"].item<std::int64_t>()};
}

bg::Dataset<bg::LabeledBatch> batches_of(const std::string& folder) {
  const bg::ExampleFeatures parse({
      {"image", bg::RawFeature{.dtype = at::kByte, .shape = {{1, 28, 28}}}},
      {"label", bg::FixedLenFeature{.kind = bg::FeatureKind::kInt64}},
  });
  return bg::list_files({folder + "/train-*.tfrecord"})  // another order each epoch
      .interleave([](const bg::io::Path& file) { return bg::records({file}); },
                  {.cycle_length = kFiles, .parallelism = bg::kAutotune})
      .shuffle(1000)  // bytes, which are smaller than the floats
      .map(parse)
      .map(augment, {.parallelism = bg::kAutotune})
      .batch(kBatch)
      .prefetch(bg::kAutotune);
}

std::vector<bg::LabeledBatch> rest_of(bg::Iterator<bg::LabeledBatch>& iterator) {
  std::vector<bg::LabeledBatch> batches;
  while (auto batch = iterator.next()) batches.push_back(std::move(*batch));
  return batches;
}

bool are_equal(const std::vector<bg::LabeledBatch>& one,
               const std::vector<bg::LabeledBatch>& other) {
  bool is_equal = one.size() == other.size();
  for (std::size_t i = 0; is_equal && i < one.size(); ++i) {
    is_equal = one[i].features.equal(other[i].features) && one[i].labels.equal(other[i].labels);
  }
  return is_equal;
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const char* directory = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const std::int64_t examples = argc > 2 ? std::atoll(argv[2]) : 60'000;
    const std::string folder = argc > 3 ? argv[3] : "input_pipeline_run";
    write_files(bg::fashion_mnist(directory).take(examples), folder);

    const auto batches = batches_of(folder);
    std::cout << batches.describe() << "\n\n";

    // An iterator that counts what each step does.
    using bg::StagesOptions;
    const auto stages =
        std::make_shared<bg::Stages>(StagesOptions{.count = StagesOptions::Count::kAll});
    auto iterator = batches.iterator({.seed = 7, .stages = stages});
    for (std::int64_t passed = 0; passed < examples / kBatch / 2; ++passed) iterator.next();

    // In a training, `TrainingState::add_iterator` saves this position in checkpoints.
    const bg::io::StateTree position = iterator.save();
    const auto rest = rest_of(iterator);
    std::cout << bg::describe(iterator.stats()) << "\n";

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
