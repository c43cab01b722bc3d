#include "brigade/input/csv_types.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "brigade/data/dataset.h"

namespace brigade::input::internal {
namespace {

using data::CsvColumn;
using data::CsvType;

bool fits(const std::string& text, CsvType type) {
  const auto value = data::parse_csv_value(text, type);
  if (!value || type != CsvType::kFloat) return value.has_value();
  // A number too large for float32 was read as infinite.
  const auto exact = data::parse_csv_value(text, CsvType::kDouble);
  return std::isinf(std::get<float>(*value)) == std::isinf(std::get<double>(*exact));
}

/// The first type that can represent `text` and all values of `type`.
CsvType widened(CsvType type, const std::string& text) {
  while (type != CsvType::kString && !fits(text, type)) {
    type = static_cast<CsvType>(static_cast<int>(type) + 1);
  }
  return type;
}

}  // namespace

std::vector<CsvType> infer_csv_types(const std::vector<io::Path>& paths,
                                     const data::CsvOptions& format, std::int64_t rows) {
  const std::size_t columns = format.select_columns.size();
  std::vector<std::optional<CsvType>> types(columns);
  const auto texts = data::csv(paths, std::vector<CsvColumn>(columns, CsvColumn("")), format);
  for (const data::CsvRow& row : texts.take(rows)) {
    for (std::size_t i = 0; i < columns; ++i) {
      const std::string& text = std::get<std::string>(row[i]);
      if (!text.empty()) types[i] = widened(types[i].value_or(CsvType::kInt32), text);
    }
  }
  std::vector<CsvType> result;
  for (const auto& type : types) result.push_back(type.value_or(CsvType::kString));
  return result;
}

CsvColumn csv_column_with_zero(CsvType type) {
  switch (type) {
    case CsvType::kInt32:
      return std::int32_t{0};
    case CsvType::kInt64:
      return std::int64_t{0};
    case CsvType::kFloat:
      return 0.0f;
    case CsvType::kDouble:
      return 0.0;
    case CsvType::kString:
      break;
  }
  return CsvType::kString;
}

}  // namespace brigade::input::internal
