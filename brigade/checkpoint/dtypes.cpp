#include "brigade/checkpoint/dtypes.h"

#include <array>

namespace brigade::checkpoint {
namespace {

constexpr std::array<Dtype, 10> kDtypes{{
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

}  // namespace

std::optional<Dtype> dtype_of(at::ScalarType type) {
  for (const auto& each : kDtypes) {
    if (each.type == type) return each;
  }
  return std::nullopt;
}

std::optional<Dtype> dtype_named(std::string_view name) {
  for (const auto& each : kDtypes) {
    if (each.safetensors == name) return each;
  }
  return std::nullopt;
}

std::string shared_dtypes() {
  std::string names;
  for (const auto& each : kDtypes) {
    if (!names.empty()) names += ", ";
    names += each.safetensors;
  }
  return names;
}

}  // namespace brigade::checkpoint
