#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/brigade/report.h"
#include "brigade/data/dataset.h"
#include "brigade/image/normalize.h"
#include "brigade/input/image_output.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/mnist.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The images that a model is trained on.
struct ImageInput {
  std::array<std::int64_t, 3> shape = {1, 28, 28};  ///< channels, height, width
  std::int64_t classes = 10;
  /// Of datasets of files: before the center is cut out, the shorter side has this length.
  std::int64_t resize = 0;
  /// Of datasets of files: see `image::NormalizeOptions`.
  std::array<float, 4> mean = image::kImageNetMean;
  std::array<float, 4> deviation = image::kImageNetDeviation;
  /// kBytes: the replicas make floats of them on their devices (device_normalization.h).
  input::ImageOutput output = input::ImageOutput::kNormalized;
};

/// Examples, and, of a folder of images, the file of each, relative to --data-dir.
struct LoadedExamples {
  data::Dataset<input::LabeledExample> examples;
  std::vector<std::string> paths = {};
};

/// The flags that choose the data.
struct DataFlags {
  std::string dataset = "fashion_mnist";
  std::string data_dir;
  std::optional<std::int64_t> train_examples;
  std::optional<std::int64_t> image_size;
  std::optional<std::int64_t> resize;
  std::optional<std::int64_t> classes;
  /// Where bytes become floats: auto, host or device. The values are the same, so it is not part of
  /// a run's description.
  std::string normalize = "auto";

  void add_to(CLI::App& app);
  /// Adds --normalize, for commands that know both ways.
  void add_normalize_to(CLI::App& app);
  /// Throws UsageError for flags that cannot work. Reads no file.
  void check() const;
  bool has_files() const { return dataset == "image_folder"; }
  /// What the dataset gives to the model of that name. Throws UsageError if the classes of the
  /// folder are not as many as --classes says, kNotFound without the folder.
  ImageInput image_input(const std::string& model) const;
  /// Reads a split, or makes a synthetic one: not shuffled, not augmented.
  data::Dataset<input::LabeledExample> load(input::Split split, const ImageInput& input) const;
  /// The same with the paths.
  LoadedExamples load_with_paths(input::Split split, const ImageInput& input) const;
  /// Adds the keys of the flags to a configuration.
  void describe(Json& configuration, const ImageInput& input) const;
};

/// The flags of the input pipeline.
struct PipelineFlags {
  std::int64_t shuffle_buffer = 10'000;
  std::string augment = "none";
  std::string map_threads = "auto";
  std::optional<double> mixup;
  std::optional<double> cutmix;

  void add_to(CLI::App& app);
  /// Throws UsageError.
  void check(const DataFlags& data) const;
  /// What `map_threads` means: a number, or `data::kAutotune`. Throws UsageError.
  std::int64_t map_parallelism() const;
  /// The training split, shuffled and augmented, one epoch.
  data::Dataset<input::LabeledExample> load(const DataFlags& data, const ImageInput& input) const;
  /// Why the host must make floats of the images; unset: it need not.
  std::optional<std::string> need_of_floats(const DataFlags& data) const;
  /// Batches whose examples are mixed, if the flags say so: then labels are distributions over the
  /// classes.
  data::Dataset<input::LabeledBatch> mix(data::Dataset<input::LabeledBatch> batches,
                                         const ImageInput& input) const;
  /// Adds the keys of the flags to a configuration.
  void describe(Json& configuration) const;

 private:
  bool augments_by(const std::string& name) const;
  data::Dataset<input::LabeledExample> load_folder(const DataFlags& data,
                                                   const ImageInput& input) const;
};

/// The size of a batch, given in one of two ways.
struct BatchFlags {
  std::optional<std::int64_t> per_replica;
  std::optional<std::int64_t> global;

  void add_to(CLI::App& app);
  /// Throws UsageError.
  void check() const;
  std::int64_t global_size(int replicas) const;
};

}  // namespace brigade::command
