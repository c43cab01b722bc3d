#include "brigade/device/precision.h"

#include <array>

#include "brigade/base/unknown_name.h"

namespace brigade::device {

namespace {

constexpr std::array kAll = {Precision::kFull, Precision::kBf16, Precision::kFp16};

}  // namespace

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kFull:
      return "full";
    case Precision::kBf16:
      return "bf16";
    case Precision::kFp16:
      return "fp16";
  }
  return "unknown";
}

Precision precision_from(std::string_view name) {
  for (const Precision precision : kAll) {
    if (to_string(precision) == name) return precision;
  }
  throw base::unknown_name("precision", name, "Precisions", precision_names());
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const Precision precision : kAll) names.emplace_back(to_string(precision));
  return names;
}

}  // namespace brigade::device
