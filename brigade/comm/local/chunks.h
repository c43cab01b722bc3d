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

/// Copies the chunk's values to the start of `flat`, converting to its dtype.
void copy_in(const Chunk& chunk, std::span<const FlatTensor> tensors, const at::Tensor& flat);
/// Copies the start of `flat` to the chunk's values.
void copy_out(const Chunk& chunk, std::span<const FlatTensor> tensors, const at::Tensor& flat);

/// Allocates the tensors that an all-gather fills: one per rank, with the shape in its header.
std::vector<at::Tensor> allocate_parts(const at::Tensor& mine, std::span<const CallHeader> headers);
/// The size in bytes of the largest tensor.
std::int64_t largest_nbytes(std::span<const at::Tensor> tensors);

}  // namespace brigade::comm
