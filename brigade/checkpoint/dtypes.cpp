#include "brigade/checkpoint/dtypes.h"

#include "brigade/device/dtypes.h"
#include "brigade/io/safetensors_header.h"

namespace brigade::checkpoint {
namespace {

std::optional<Dtype> dtype_from(const std::optional<device::FileDtype>& found) {
  if (!found) return std::nullopt;
  return Dtype{found->type, found->safetensors, found->name, found->bytes};
}

}  // namespace

std::optional<Dtype> dtype_of(at::ScalarType type) {
  return dtype_from(device::file_dtype_of(type));
}

std::optional<Dtype> dtype_named(std::string_view name) {
  return dtype_from(device::file_dtype_named(name));
}

std::string shared_dtypes() {
  return io::tensor_dtypes();
}

}  // namespace brigade::checkpoint
