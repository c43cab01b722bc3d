#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/data/formats/csv.h"
#include "brigade/input/named_tensors.h"
#include "brigade/input/tensor_structure.h"

namespace brigade::input {

/// Options of `from_csv`.
struct CsvTensorsOptions {
  std::int64_t batch_size = 32;
  /// What happens to a smaller last batch.
  data::BatchOptions batch{};
  /// The names of all columns of the files, in order. Empty: taken from the first row of each file,
  /// which must be the same in all files.
  std::vector<std::string> column_names{};
  /// The selected columns; they keep the order of the files. Empty: all.
  std::vector<std::string> select_columns{};
  /// The contents of a column: a type, and then no field may be missing, or a default value for
  /// missing fields. Other columns get the first of the types int32, int64, float32 and float64
  /// that fits the first rows, with the default 0.
  std::map<std::string, data::CsvColumn, std::less<>> columns{};
  /// The vocabulary of each string column: the tensor holds the index of each word in this list,
  /// int64. Tensors cannot hold strings, so every string column needs a vocabulary. Other words
  /// fail their batch.
  std::map<std::string, std::vector<std::string>, std::less<>> vocabularies{};
  /// The format of rows: the delimiter, quotes, the text of a missing field. Its `select_columns`
  /// must be empty.
  data::CsvOptions format{.header = data::CsvHeader::kSkip};
  /// Number of rows that types are inferred from.
  std::int64_t rows_for_inference = 100;
  /// Unset: in the order of the files.
  std::optional<data::ShuffleOptions> shuffle = data::ShuffleOptions{.buffer_size = 10'000};
  /// Number of passes over the files, each in a different order; or `data::kForever`.
  std::int64_t epochs = 1;
  /// Number of batches to prefetch.
  std::int64_t prefetch = data::kAutotune;
};

/// Batches of the rows of CSV files: one tensor [N] per column, by name.
///
///   auto batches = input::from_csv({"iris.csv"}, {
///       .columns = {{"length", 0.0f}},
///       .vocabularies = {{"species", {"setosa", "versicolor", "virginica"}}},
///   });
///   for (const auto& batch : batches) train(batch["length"], batch["species"]);
///
/// The headers, and the rows for type inference, are read by this call. A row that `data::csv`
/// rejects fails its batch. Throws kInvalidArgument, naming the column, for duplicate names,
/// unknown columns, strings without a vocabulary and headers that differ; also as `data::csv`,
/// `batch`, `shuffle` and reading the files do.
///
/// TensorFlow counterpart: tf.data.experimental.make_csv_dataset. By default it never ends, and
/// it shuffles the files too.
data::Dataset<NamedTensors> from_csv(std::vector<io::Path> paths,
                                     const CsvTensorsOptions& options = {});

/// As above, as pairs of features and the tensor of the column `label`. Throws kInvalidArgument too
/// if `label` is not one of the selected columns.
data::Dataset<std::pair<NamedTensors, at::Tensor>> from_csv(std::vector<io::Path> paths,
                                                            const std::string& label,
                                                            const CsvTensorsOptions& options = {});

}  // namespace brigade::input
