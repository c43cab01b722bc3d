#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace brigade::ps {

/// A range of elements, [begin, end).
struct RecordPart {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const RecordPart&, const RecordPart&) = default;
};

/// Divides elements with these numbers of bytes into parts of at most `limit` bytes; an element
/// that is longer has a part for itself. No elements are one empty part.
std::vector<RecordPart> divide_by_bytes(std::span<const std::uint64_t> bytes, std::uint64_t limit);

/// The most bytes of variables that one record has: little enough that a model is not in memory
/// again, and sure to fit into a log whose longest record is `max_record_bytes`.
std::uint64_t part_bytes(std::uint64_t max_record_bytes);

}  // namespace brigade::ps
