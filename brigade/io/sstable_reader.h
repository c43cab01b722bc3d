#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace brigade::io {

/// One entry of a table of keys and values. The views are valid during the call that gets them.
struct SstableEntry {
  std::string_view key;
  std::string_view value;
  std::uint64_t offset = 0;  ///< Of the entry in the file, for errors.
};

/// A table ends with a footer of this many bytes.
inline constexpr std::size_t kSstableFooterBytes = 48;

/// Whether these are the last `kSstableFooterBytes` of a table: they end with the format's number.
bool has_sstable_footer(std::string_view last_bytes);

/// Calls `visit` for each entry of `table`, in the order of the keys, which are different. `table`
/// is the complete content of a sorted table in LevelDB's format, which TensorFlow uses for the
/// index of a checkpoint (docs/formats.md describes it): blocks with a checksum, entries that omit
/// what their key has in common with the one before.
///
/// Holds one key in memory besides `table`. All keys together may be far longer than the file
/// (each may repeat most of the one before), so a caller that keeps keys needs its own limit.
///
/// Throws kDataLoss, naming `file` and the offset, for bytes that are not a table: cut short, with
/// a wrong checksum, blocks that overlap or reach beyond the file, lengths beyond their block, keys
/// out of order; kUnimplemented for a compressed block. A malicious file cannot do more than that.
/// Throws what `visit` throws. Thread-safety: a pure function.
void read_sstable(std::string_view table, std::string_view file,
                  const std::function<void(const SstableEntry&)>& visit);

}  // namespace brigade::io
