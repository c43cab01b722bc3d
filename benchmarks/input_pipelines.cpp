#include "benchmarks/input_pipelines.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "brigade/base/random.h"
#include "brigade/data/core/source.h"
#include "brigade/data/formats/example.h"
#include "brigade/data/formats/example_parser.h"
#include "brigade/data/formats/records.h"
#include "brigade/data/sources/list_files.h"
#include "brigade/image/augment.h"
#include "brigade/image/image.h"
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

namespace fs = std::filesystem;

constexpr image::Size kImageSize{.height = 375, .width = 500};
constexpr int kImages = 1000;
constexpr int kFolders = 10;

std::uint8_t pixel(double value) {
  return static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
}

/// Waves of several lengths for large and small forms, edges where they pass through zero, and the
/// noise of a camera: a JPEG file of a photograph's size.
image::Image photograph(std::uint64_t seed) {
  struct Wave {
    double x, y, phase;
    std::array<double, 3> strength;
  };
  base::CounterRng random(seed);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random.uniform_below(1 << 20)) / (1 << 20);
  };
  std::array<Wave, 6> waves;
  for (std::size_t i = 0; i < waves.size(); ++i) {
    const double frequency = 0.01 * static_cast<double>(1 << i);
    waves[i] = {uniform(-frequency, frequency), uniform(-frequency, frequency), uniform(0, 6), {}};
    for (double& each : waves[i].strength) each = uniform(5, 60) / (1.0 + static_cast<double>(i));
  }
  image::Image image(kImageSize, 3);
  for (std::int64_t y = 0; y < image.height(); ++y) {
    for (std::int64_t x = 0; x < image.width(); ++x) {
      std::array<double, 3> color{128, 120, 110};
      for (const Wave& wave : waves) {
        const double angle = wave.x * static_cast<double>(x) + wave.y * static_cast<double>(y);
        const double height = std::sin(angle + wave.phase);
        const double edged = height + (height > 0 ? 0.5 : -0.5);
        for (std::size_t c = 0; c < 3; ++c) color[c] += wave.strength[c] * edged;
      }
      for (std::int64_t c = 0; c < 3; ++c) {
        image.at(y, x, c) = pixel(color[static_cast<std::size_t>(c)] + uniform(-6, 6));
      }
    }
  }
  return image;
}

/// An image of Fashion-MNIST, each pixel many times as large.
image::Image enlarged(const at::Tensor& clothes) {
  const at::Tensor rows = clothes.contiguous();  // [1, 28, 28]
  const float* values = rows.const_data_ptr<float>();
  image::Image image(kImageSize, 3);
  for (std::int64_t y = 0; y < image.height(); ++y) {
    for (std::int64_t x = 0; x < image.width(); ++x) {
      const auto index = 28 * (y * 28 / image.height()) + x * 28 / image.width();
      for (std::int64_t c = 0; c < 3; ++c) image.at(y, x, c) = pixel(255.0 * values[index]);
    }
  }
  return image;
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

void make_images(const fs::path& folder) {
  auto clothes = input::fashion_mnist().iterator();
  for (int i = 0; i < kImages; ++i) {
    const fs::path of_class = folder / ("class" + std::to_string(i % kFolders));
    fs::create_directories(of_class);
    const auto image = i % 2 == 0 ? photograph(static_cast<std::uint64_t>(i))
                                  : enlarged(clothes.next().value().features);
    write_file(of_class / (std::to_string(i) + ".jpg"), image::encode_jpeg(image, {.quality = 90}));
  }
}

/// Every fourth example of Fashion-MNIST into each file.
void make_records(const fs::path& folder) {
  constexpr std::int64_t kFiles = 4;
  fs::create_directories(folder);
  const auto record = [](const input::LabeledExample& example) {
    const at::Tensor bytes = (example.features * 255).round().to(at::kByte).contiguous();
    const auto* first = reinterpret_cast<const char*>(bytes.const_data_ptr<std::uint8_t>());
    const std::string pixels(first, static_cast<std::size_t>(bytes.numel()));
    return data::serialize({.features = {{"image", std::vector<std::string>{pixels}},
                                         {"label", std::vector<std::int64_t>{example.label}}}});
  };
  for (std::int64_t file = 0; file < kFiles; ++file) {
    data::write_records(input::fashion_mnist().shard(kFiles, file).map(record),
                        folder / ("part" + std::to_string(file)));
  }
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

void make_input_files(const std::string& word, const fs::path& directory) {
  if (word == "jpeg") make_images(directory / "jpeg");
  if (word.starts_with("records")) make_records(directory / "records");
}

}  // namespace brigade::benchmarks
