#pragma once

#include <cstddef>
#include <cstring>

namespace brigade::base {

/// std::memcpy that allows null pointers where there is nothing to copy: an empty tensor has no
/// memory.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace brigade::base
