#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/formats/csv.h"
#include "brigade/data/dataset.h"
#include "brigade/input/named_tensors.h"
#include "brigade/input/tensor_structure.h"

namespace brigade::input {

struct CsvTensorsOptions {
  std::int64_t batch_size = 32;
  data::BatchOptions batch{};
  /// What all columns of the files are called, in their order. Empty: the first row of each file
  /// says it, which must be the same in all.
  std::vector<std::string> column_names{};
  /// The columns wanted; they come in the order of the files. Empty: all.
  std::vector<std::string> select_columns{};
  /// What a column holds: a type, and then no field may be missing, or the value where one is. Of
  /// the others it is the first of int32, int64, float32 and float64 that the first rows fit, and 0
  /// where a field is missing.
  std::map<std::string, data::CsvColumn, std::less<>> columns{};
  /// The words that a column of strings has: the tensor holds their places in this list, int64. No
  /// tensor holds strings, so each such column wants one. Other words fail their batch.
  std::map<std::string, std::vector<std::string>, std::less<>> vocabularies{};
  /// How rows are written: the delimiter, quotes, what else than nothing is missing. Its
  /// `select_columns` stays empty.
  data::CsvOptions format{.header = data::CsvHeader::kSkip};
  /// Rows looked at to see what columns hold.
  std::int64_t rows_for_inference = 100;
  /// Unset: in the order of the files.
  std::optional<data::ShuffleOptions> shuffle = data::ShuffleOptions{.buffer_size = 10'000};
  /// Passes over the files, each in its own order; or `data::kForever`.
  std::int64_t epochs = 1;
  /// Batches made ahead.
  std::int64_t prefetch = data::kAutotune;
};

/// Batches of the rows of CSV files: a tensor [N] a column, by its name.
///
///   auto batches = input::from_csv({"iris.csv"}, {
///       .columns = {{"length", 0.0f}},
///       .vocabularies = {{"species", {"setosa", "versicolor", "virginica"}}},
///   });
///   for (const auto& batch : batches) train(batch["length"], batch["species"]);
///
/// The headers, and the rows that tell types, are read now. A row that `data::csv` refuses fails
/// its batch. Throws kInvalidArgument, naming the column, for names that come twice or that no
/// column has, strings without vocabulary, headers that differ, and what `data::csv`, `batch` and
/// `shuffle` refuse; and what reading the files throws.
///
/// TensorFlow counterpart: tf.data.experimental.make_csv_dataset. Its default is to never end, and
/// it shuffles the files too.
data::Dataset<NamedTensors> from_csv(std::vector<io::Path> paths,
                                     const CsvTensorsOptions& options = {});

/// The same as pairs of features and the tensor of the column `label`. Throws kInvalidArgument too
/// if that is not among the columns wanted.
data::Dataset<std::pair<NamedTensors, at::Tensor>> from_csv(std::vector<io::Path> paths,
                                                            const std::string& label,
                                                            const CsvTensorsOptions& options = {});

}  // namespace brigade::input
