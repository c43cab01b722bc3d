#include "brigade/input/tensor_codec.h"

#include <ATen/ops/empty.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/device/dtypes.h"

namespace brigade::data {
namespace {

using base::str_cat;

/// A dtype is written as its index in `file_dtypes`.
at::ScalarType type_of(std::uint8_t code) {
  return device::file_dtypes()[code].type;
}

std::uint8_t code_of(const at::Tensor& tensor) {
  check_argument(tensor.defined(), "Codec of tensor: the tensor is undefined; give it a value.");
  check_argument(tensor.layout() == at::kStrided,
                 "Codec of tensor: the tensor is sparse; make it dense first.");
  for (std::uint8_t code = 0; code < device::file_dtypes().size(); ++code) {
    if (type_of(code) == tensor.scalar_type()) return code;
  }
  refuse("Codec of tensor: tensors of ", toString(tensor.scalar_type()),
         " cannot be written; convert to one of: ", device::file_dtype_names(), ".");
}

[[noreturn]] void fail(std::string_view why) {
  throw Error(ErrorCode::kDataLoss, "The bytes are not a tensor: ", why,
              "; they are corrupt, or were written by another program.");
}

/// The number of bytes of a tensor of this shape. Throws kDataLoss unless `from` has as many.
std::uint64_t checked_bytes(const std::vector<std::int64_t>& shape, std::uint64_t item_size,
                            const Decoder& from) {
  bool is_empty = false;
  std::uint64_t bytes = item_size;
  for (const std::int64_t extent : shape) {
    if (extent < 0) fail(str_cat("a dimension is ", extent));
    if (extent == 0) is_empty = true;
    const auto factor = extent == 0 ? std::uint64_t{1} : static_cast<std::uint64_t>(extent);
    constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
    if (factor > kMax / bytes) fail("its size overflows");
    bytes *= factor;
  }
  if (is_empty) return 0;
  if (bytes > from.left())
    fail(str_cat(bytes, " bytes are expected, and ", from.left(), " are left"));
  return bytes;
}

}  // namespace

void Codec<at::Tensor>::encode(const at::Tensor& tensor, Encoder& to) {
  to.number(code_of(tensor));
  const at::Tensor plain = tensor.detach().cpu().contiguous();
  const auto sizes = plain.sizes();
  to.number(static_cast<std::uint8_t>(sizes.size()));
  to.numbers(sizes.data(), sizes.size());
  to.append({static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()});
}

at::Tensor Codec<at::Tensor>::decode(Decoder& from) {
  const auto code = from.number<std::uint8_t>();
  if (code >= device::file_dtypes().size()) fail(str_cat("its dtype is number ", int{code}));
  const auto dimensions = from.number<std::uint8_t>();
  if (dimensions > 64) fail(str_cat("it has ", int{dimensions}, " dimensions"));
  const auto shape = from.numbers<std::int64_t>(dimensions);
  const std::string_view bytes =
      from.take(checked_bytes(shape, c10::elementSize(type_of(code)), from));
  if (type_of(code) == at::kBool) {
    for (const char byte : bytes) {
      if (byte != 0 && byte != 1) fail("a bool in it is neither 0 nor 1");
    }
  }
  at::Tensor tensor = at::empty(shape, at::TensorOptions(type_of(code)));
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

void Codec<input::LabeledExample>::encode(const input::LabeledExample& example, Encoder& to) {
  encode_all(to, example.features, example.label);
}
input::LabeledExample Codec<input::LabeledExample>::decode(Decoder& from) {
  at::Tensor features = Codec<at::Tensor>::decode(from);
  return {std::move(features), Codec<std::int64_t>::decode(from)};
}

void Codec<input::LabeledBatch>::encode(const input::LabeledBatch& batch, Encoder& to) {
  encode_all(to, batch.features, batch.labels);
}
input::LabeledBatch Codec<input::LabeledBatch>::decode(Decoder& from) {
  at::Tensor features = Codec<at::Tensor>::decode(from);
  return {std::move(features), Codec<at::Tensor>::decode(from)};
}

}  // namespace brigade::data
