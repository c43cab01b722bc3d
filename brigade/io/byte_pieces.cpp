#include "brigade/io/byte_pieces.h"

#include "brigade/base/copy_bytes.h"

namespace brigade::io {

SharedBytes shared_bytes(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {.bytes = *owner, .owner = owner};
}

BytePieces::BytePieces(std::string bytes) {
  append(std::move(bytes));
}

void BytePieces::append(SharedBytes piece) {
  if (piece.bytes.empty()) return;
  const std::size_t added = piece.bytes.size();
  pieces_.push_back(std::move(piece));
  size_ += added;
}

void BytePieces::copy_to(char* destination) const {
  for (const SharedBytes& piece : pieces_) {
    if (piece.bytes.data() != destination)
      base::copy_part_bytes(destination, piece.bytes.data(), piece.bytes.size(), size_);
    destination += piece.bytes.size();
  }
}

std::string BytePieces::joined() const {
  std::string bytes;
  bytes.reserve(size_);
  for (const SharedBytes& piece : pieces_) bytes += piece.bytes;
  return bytes;
}

void BytePieces::unshare() {
  *this = BytePieces(joined());
}

}  // namespace brigade::io
