#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// A part of the flat tensors of one call that is sent in one piece: small tensors share a chunk,
/// large ones are split over several.
struct Chunk {
  struct Piece {
    std::size_t tensor = 0;
    std::int64_t begin = 0;
    std::int64_t count = 0;
  };
  at::ScalarType dtype = at::kFloat;
  bool narrow = false;
  std::int64_t numel = 0;
  std::vector<Piece> pieces = {};
};

/// Splits `tensors` into chunks of one dtype and at most `max_bytes` each, in their order. The
/// result depends on dtypes and sizes alone, so it is the same on all ranks.
std::vector<Chunk> cut_into_chunks(std::span<const FlatTensor> tensors, std::int64_t max_bytes);

/// Copies the chunk's values, those of part `part`, to the start of `flat`, converting to its
/// dtype.
void copy_in(const Chunk& chunk, std::span<const FlatTensor> tensors, const at::Tensor& flat,
             std::size_t part = 0);
/// Copies the start of `flat` to the chunk's values.
void copy_out(const Chunk& chunk, std::span<const FlatTensor> tensors, const at::Tensor& flat);

/// The dtype of `wire`; `full` for kFull.
at::ScalarType wire_dtype(WireDtype wire, at::ScalarType full);
/// Rounds `values` in place to the precision of `wire`, as sending and receiving them would.
void round_to_wire(const at::Tensor& values, WireDtype wire);

inline std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

}  // namespace brigade::comm
