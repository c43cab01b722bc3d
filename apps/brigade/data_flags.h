#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "brigade/data/dataset.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/mnist.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags that choose the data.
struct DataFlags {
  std::string dataset = "fashion_mnist";
  std::string data_dir;
  std::optional<std::int64_t> train_examples;

  void add_to(CLI::App& app);
  /// Throws UsageError for flags that cannot work. Reads no file.
  void check() const;
  /// Reads a split, or makes a synthetic one.
  data::Dataset<input::LabeledExample> load(input::Split split) const;
};

/// The flags of the input pipeline.
struct PipelineFlags {
  std::int64_t shuffle_buffer = 10'000;
  std::string augment = "none";
  std::string map_threads = "auto";

  void add_to(CLI::App& app);
  /// Throws UsageError.
  void check() const;
  /// What `map_threads` means: a number, or `data::kAutotune`. Throws UsageError.
  std::int64_t map_parallelism() const;
  /// Shuffled and augmented, one epoch.
  data::Dataset<input::LabeledExample> apply(data::Dataset<input::LabeledExample> examples) const;
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
