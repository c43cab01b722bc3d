#pragma once

#include <cstdint>
#include <vector>

#include "brigade/data/formats/csv.h"

/// How `from_csv` sees what columns hold. Not for others.
namespace brigade::input::internal {

/// Of each selected column the first type, in the order of `CsvType`, that holds all its fields in
/// the first `rows` rows; kString where all are missing. Throws what the rows throw.
std::vector<data::CsvType> infer_csv_types(const std::vector<io::Path>& paths,
                                           const data::CsvOptions& format, std::int64_t rows);

/// A column of numbers with 0 where a field is missing; a column of strings that must be there.
data::CsvColumn csv_column_with_zero(data::CsvType type);

}  // namespace brigade::input::internal
