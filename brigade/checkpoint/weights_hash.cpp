#include "brigade/checkpoint/weights_hash.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/safetensors_header.h"
#include "brigade/io/sha256.h"

namespace brigade::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are hashed as they are in memory");

template <class... T>
[[noreturn]] void refuse_hash(const T&... pieces) {
  throw Error(ErrorCode::kInvalidArgument, "weights_sha256: ", pieces...);
}

std::vector<const NamedTensor*> name_order(std::span<const NamedTensor> variables) {
  std::vector<const NamedTensor*> order;
  for (const auto& each : variables) order.push_back(&each);
  std::sort(order.begin(), order.end(),
            [](const NamedTensor* a, const NamedTensor* b) { return a->name < b->name; });
  const auto twice = std::adjacent_find(
      order.begin(), order.end(),
      [](const NamedTensor* a, const NamedTensor* b) { return a->name == b->name; });
  if (twice != order.end()) refuse_hash("two variables are called '", (*twice)->name, "'");
  return order;
}

void add(io::Sha256& hash, const NamedTensor& variable) {
  using std::string_view_literals::operator""sv;
  const auto& [name, tensor] = variable;
  if (name.find('\0') != std::string::npos) refuse_hash("the name '", name, "' holds a NUL");
  if (!tensor.defined()) refuse_hash("variable '", name, "' is undefined");
  const auto dtype = device::file_dtype_of(tensor.scalar_type());
  if (tensor.layout() != at::kStrided || !dtype) {
    refuse_hash("variable '", name, "' is ", at::toString(tensor.scalar_type()), ", ",
                tensor.layout(), "; expected a dense tensor of ", io::tensor_dtypes());
  }
  hash.update(name);
  hash.update("\0"sv);
  hash.update(dtype->name);
  hash.update("\0"sv);
  hash.update(std::as_bytes(std::span(tensor.sizes().data(), tensor.sizes().size())));
  const auto plain = tensor.detach().cpu().resolve_neg().contiguous();
  if (plain.numel() == 0) return;
  hash.update({static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()});
}

}  // namespace

std::string weights_sha256(std::span<const NamedTensor> variables) {
  io::Sha256 hash;
  for (const auto* each : name_order(variables)) add(hash, *each);
  return hash.hex_digest();
}

SafetensorsFile read_weights(const io::FileSystem& files, const io::Path& path,
                             HashMismatch mismatch) {
  SafetensorsFile file = read_safetensors(files, path);
  const auto recorded = file.metadata.find(std::string(kWeightsHashKey));
  if (mismatch == HashMismatch::kAllow || recorded == file.metadata.end()) return file;
  const std::string found = weights_sha256(file.tensors);
  if (found == recorded->second) return file;
  throw Error(ErrorCode::kDataLoss, path, ": its weights were altered: their sha256 is ", found,
              ", and the file was written with ", recorded->second);
}

}  // namespace brigade::checkpoint
