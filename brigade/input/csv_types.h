#pragma once

#include <cstdint>
#include <vector>

#include "brigade/data/formats/csv.h"

/// Type inference for `from_csv`; internal.
namespace brigade::input::internal {

/// For each selected column, the first type in the order of `CsvType` that fits all its fields in
/// the first `rows` rows; kString if all are missing. Throws the errors of the rows.
std::vector<data::CsvType> infer_csv_types(const std::vector<io::Path>& paths,
                                           const data::CsvOptions& format, std::int64_t rows);

/// A column of the given type: numbers with default 0; strings without a default.
data::CsvColumn csv_column_with_zero(data::CsvType type);

}  // namespace brigade::input::internal
