#pragma once

#include <cstddef>
#include <cstring>

namespace brigade::base {

/// std::memcpy that allows null pointers where there is nothing to copy: an empty tensor has no
/// memory.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// The same for a part of `whole` bytes that are copied one part after another, and read once all
/// are there. If these are so many that the first ones would not be in a cache any more by then,
/// the copy goes around the caches: the processor need not read what it overwrites, and the caches
/// keep what others have in them. What a thread copies is visible to another one as after
/// std::memcpy.
void copy_part_bytes(void* to, const void* from, std::size_t bytes, std::size_t whole);

}  // namespace brigade::base
