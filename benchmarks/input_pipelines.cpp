#include "benchmarks/input_pipelines.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "brigade/data/core/source.h"
#include "brigade/data/formats/example_parser.h"
#include "brigade/data/formats/records.h"
#include "brigade/data/sources/list_files.h"
#include "brigade/image/augment.h"
#include "brigade/image/jpeg.h"
#include "brigade/image/normalize.h"
#include "brigade/input/image_tensor.h"
#include "brigade/input/mnist.h"
#include "brigade/io/file_system.h"

namespace brigade::benchmarks {
namespace {

constexpr image::Size kCrop{.height = 224, .width = 224};
constexpr std::int64_t kPixels = 28 * 28;

at::Tensor augmented(const std::string& bytes, data::ElementContext& context) {
  const auto window = image::random_window(image::jpeg_size(bytes), kCrop, context.rng);
  const auto decoded = image::decode_jpeg(bytes, {.channels = 3, .window = window});
  return input::normalize(decoded, {.mean = image::kImageNetMean,
                                    .deviation = image::kImageNetDeviation,
                                    .flip = image::random_flip(context.rng)});
}

/// One row of pixels and one label an example.
input::LabeledBatch parsed(const data::ExampleParser& parser,
                           const std::vector<std::string>& records) {
  const auto count = static_cast<std::int64_t>(records.size());
  input::LabeledBatch batch{at::empty({count, kPixels}, at::kFloat), at::empty({count}, at::kLong)};
  float* pixel = batch.features.mutable_data_ptr<float>();
  std::int64_t* label = batch.labels.mutable_data_ptr<std::int64_t>();
  for (const std::string& record : records) {
    const data::ParsedExample example = parser(record);
    const std::string& image = example.value<std::string>(0);
    check_argument(image.size() == kPixels, "an image of another size");
    for (const char byte : image) {
      *pixel++ = static_cast<float>(static_cast<unsigned char>(byte)) / 255.0F;
    }
    *label++ = example.value<std::int64_t>(1);
  }
  return batch;
}

}  // namespace

data::Dataset<input::LabeledBatch> mnist_batches() {
  return input::fashion_mnist().shuffle(10'000).repeat().batch(128).prefetch(data::kAutotune);
}

data::Dataset<at::Tensor> jpeg_crops(const std::filesystem::path& directory) {
  const auto paths = data::match_files((directory / "jpeg/*/*.jpg").string());
  const auto files = io::posix_file_system();
  const auto load = [files](const io::Path& path, data::ElementContext& context) {
    return augmented(files->read(path), context);
  };
  return data::from_elements(paths, "images")
      .shuffle(static_cast<std::int64_t>(paths.size()))
      .repeat()
      .map(load, {.parallelism = data::kAutotune, .name = "decode"})
      .batch(32)
      .prefetch(data::kAutotune);
}

data::Dataset<input::LabeledBatch> parsed_records(const std::filesystem::path& directory) {
  const data::ExampleParser parser({
      {"image", data::FixedLenFeature{.kind = data::FeatureKind::kBytes}},
      {"label", data::FixedLenFeature{.kind = data::FeatureKind::kInt64}},
  });
  const auto parse = [parser](const std::vector<std::string>& records) {
    return parsed(parser, records);
  };
  return data::records(data::match_files((directory / "records/*").string()))
      .repeat()
      .batch(128)
      .map(parse, {.parallelism = data::kAutotune, .name = "parse"})
      .prefetch(data::kAutotune);
}

}  // namespace brigade::benchmarks
