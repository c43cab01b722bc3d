#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/byte_pieces.h"
#include "brigade/io/state_tree.h"

namespace brigade::ps {

/// A change of a server's variables, as it is in the server's log: what it is, as data, and its
/// tensors.
struct UpdateRecord {
  io::StateTree header;  ///< without arrays
  /// On the CPU; contiguous in what `decode_update` returns.
  std::vector<checkpoint::NamedTensor> tensors;
};

/// Throws kInvalidArgument, naming the tensor, unless a record can have it: defined, dense, on the
/// CPU, and of a dtype that files have.
void check_recordable(const checkpoint::NamedTensor& tensor);

/// The bytes of a record: the length of a JSON text, the text, and the tensors' bytes one after
/// another (docs/formats.md, "Updates"). Throws kInvalidArgument as `check_recordable`.
std::string encode_update(const UpdateRecord& record);
/// The same bytes, without copies of contiguous tensors, whose memory the pieces share. With
/// `text_bytes`, a multiple of 64, spaces make the text so long that the tensors begin there;
/// throws kInternal if it is longer.
io::BytePieces encode_update_in_pieces(const UpdateRecord& record, std::size_t text_bytes = 0);

/// What these bytes begin with, before those of the tensors, whose elements are not read.
std::string encode_update_text(const UpdateRecord& record);

/// Reads what `encode_update` wrote. The tensors own their memory. Throws kDataLoss, saying what is
/// wrong, for anything else; no more memory is taken than `bytes` has.
UpdateRecord decode_update(std::string_view bytes);
/// The same, but tensors whose bytes are aligned (64) share the memory of `bytes`.
UpdateRecord decode_update(const io::SharedBytes& bytes);

}  // namespace brigade::ps
