#include "brigade/comm/local/chunks.h"

#include <algorithm>

#include "brigade/base/copy_bytes.h"

namespace brigade::comm {

namespace {

/// libtorch's copy for other dtypes; memcpy otherwise, which costs no dispatch and starts no
/// threads.
void copy_range(const at::Tensor& from, std::int64_t from_begin, const at::Tensor& to,
                std::int64_t to_begin, std::int64_t count) {
  if (from.scalar_type() != to.scalar_type()) {
    to.narrow(0, to_begin, count).copy_(from.narrow(0, from_begin, count));
    return;
  }
  const auto size = static_cast<std::int64_t>(from.element_size());
  base::copy_bytes(static_cast<std::byte*>(to.mutable_data_ptr()) + to_begin * size,
                   static_cast<const std::byte*>(from.const_data_ptr()) + from_begin * size,
                   static_cast<std::size_t>(count * size));
}

}  // namespace

std::vector<Chunk> cut_into_chunks(std::span<const FlatTensor> tensors, std::int64_t max_bytes) {
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& values = tensors[i].values;
    const at::ScalarType dtype = values.scalar_type();
    const std::int64_t most =
        std::max<std::int64_t>(max_bytes / static_cast<std::int64_t>(values.element_size()), 1);
    for (std::int64_t begin = 0; begin < values.numel();) {
      const bool goes_with_last = !chunks.empty() && chunks.back().dtype == dtype &&
                                  chunks.back().narrow == tensors[i].narrow &&
                                  chunks.back().numel < most;
      if (!goes_with_last) chunks.push_back({.dtype = dtype, .narrow = tensors[i].narrow});
      Chunk& chunk = chunks.back();
      const std::int64_t count = std::min(values.numel() - begin, most - chunk.numel);
      chunk.pieces.push_back({i, begin, count});
      chunk.numel += count;
      begin += count;
    }
  }
  return chunks;
}

void copy_in(const Chunk& chunk, std::span<const FlatTensor> tensors, const at::Tensor& flat,
             std::size_t part) {
  std::int64_t at = 0;
  for (const Chunk::Piece& piece : chunk.pieces) {
    copy_range(tensors[piece.tensor].part(part), piece.begin, flat, at, piece.count);
    at += piece.count;
  }
}

void copy_out(const Chunk& chunk, std::span<const FlatTensor> tensors, const at::Tensor& flat) {
  std::int64_t at = 0;
  for (const Chunk::Piece& piece : chunk.pieces) {
    copy_range(flat, at, tensors[piece.tensor].values, piece.begin, piece.count);
    at += piece.count;
  }
}

at::ScalarType wire_dtype(WireDtype wire, at::ScalarType full) {
  switch (wire) {
    case WireDtype::kFull:
      return full;
    case WireDtype::kBFloat16:
      return at::kBFloat16;
    case WireDtype::kFloat16:
      return at::kHalf;
  }
  return full;
}

void round_to_wire(const at::Tensor& values, WireDtype wire) {
  if (wire != WireDtype::kFull) values.copy_(values.to(wire_dtype(wire, values.scalar_type())));
}

}  // namespace brigade::comm
