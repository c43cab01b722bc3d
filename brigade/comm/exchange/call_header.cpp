#include "brigade/comm/exchange/call_header.h"

#include <algorithm>

#include "brigade/base/error.h"

namespace brigade::comm {

std::uint64_t mix(std::uint64_t digest, std::uint64_t value) {
  // The finalizer of splitmix64: every bit of the value reaches every bit of the digest.
  std::uint64_t z = digest + 0x9E3779B97F4A7C15ULL + value;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

CallHeader header_of(const CollectiveCall& call) {
  CallHeader header{.kind = call.kind,
                    .op = call.op,
                    .root = call.root,
                    .tensors = static_cast<int>(call.tensors.size())};
  for (const at::Tensor& tensor : call.tensors) {
    header.digest = mix(header.digest, static_cast<std::uint64_t>(tensor.scalar_type()));
    if (call.traits().gathers) {
      check_argument(tensor.dim() <= CallHeader::kMaxDimensions, call.name(), ": the tensor ",
                     shape_of(tensor), " has more than ", CallHeader::kMaxDimensions,
                     " dimensions; flatten it first.");
      header.dimensions = static_cast<int>(tensor.dim());
      std::copy(tensor.sizes().begin(), tensor.sizes().end(), header.sizes.begin());
      continue;
    }
    header.digest = mix(header.digest, static_cast<std::uint64_t>(tensor.dim()));
    for (const std::int64_t size : tensor.sizes())
      header.digest = mix(header.digest, static_cast<std::uint64_t>(size));
  }
  return header;
}

std::string shapes_of(std::span<const at::Tensor> tensors, std::size_t limit) {
  std::string text;
  for (const at::Tensor& tensor : tensors) {
    const std::string line = shape_of(tensor) + "\n";
    if (text.size() + line.size() > limit) break;
    text += line;
  }
  return text;
}

}  // namespace brigade::comm
