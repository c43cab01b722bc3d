#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// A part of the flat tensors of one call that travels at once: small tensors together, large ones
/// in several.
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

/// Cuts `tensors` into chunks of one dtype and at most `max_bytes` each, in their order. Depends on
/// dtypes and sizes alone, so all ranks cut alike.
std::vector<Chunk> cut_into_chunks(std::span<const FlatTensor> tensors, std::int64_t max_bytes);

/// Copies the chunk's values to the start of `flat`, converting to its dtype.
void copy_in(const Chunk& chunk, std::span<const FlatTensor> tensors, const at::Tensor& flat);
/// Copies the start of `flat` to where the chunk's values lie.
void copy_out(const Chunk& chunk, std::span<const FlatTensor> tensors, const at::Tensor& flat);

/// What an all-gather fills: a tensor for every rank's part, as its header says.
std::vector<at::Tensor> allocate_parts(const at::Tensor& mine, std::span<const CallHeader> headers);
/// The bytes of the largest.
std::int64_t largest_nbytes(std::span<const at::Tensor> tensors);

}  // namespace brigade::comm
