#include "brigade/device/dtypes.h"

#include <array>

namespace brigade::device {
namespace {

constexpr std::array<FileDtype, 10> kDtypes{{
    {at::kDouble, "F64", "float64", 8},
    {at::kFloat, "F32", "float32", 4},
    {at::kHalf, "F16", "float16", 2},
    {at::kBFloat16, "BF16", "bfloat16", 2},
    {at::kLong, "I64", "int64", 8},
    {at::kInt, "I32", "int32", 4},
    {at::kShort, "I16", "int16", 2},
    {at::kChar, "I8", "int8", 1},
    {at::kByte, "U8", "uint8", 1},
    {at::kBool, "BOOL", "bool", 1},
}};

template <class Predicate>
std::optional<FileDtype> find(Predicate predicate) {
  for (const FileDtype& each : kDtypes) {
    if (predicate(each)) return each;
  }
  return std::nullopt;
}

}  // namespace

std::span<const FileDtype> file_dtypes() {
  return kDtypes;
}

std::optional<FileDtype> file_dtype_of(at::ScalarType type) {
  return find([type](const FileDtype& each) { return each.type == type; });
}

std::optional<FileDtype> file_dtype_named(std::string_view name) {
  return find([name](const FileDtype& each) { return each.safetensors == name; });
}

std::string file_dtype_names() {
  std::string names;
  for (const FileDtype& each : kDtypes) {
    if (!names.empty()) names += ", ";
    names += each.name;
  }
  return names;
}

}  // namespace brigade::device
