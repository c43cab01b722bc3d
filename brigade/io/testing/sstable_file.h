#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "brigade/io/crc32c.h"
#include "brigade/io/file_system.h"

/// Tables as LevelDB and TensorFlow write them, for tests: valid ones, and pieces of invalid ones.
namespace brigade::io {

using SstableEntries = std::vector<std::pair<std::string, std::string>>;

inline std::string sstable_varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

inline std::string sstable_fixed32(std::uint32_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

/// The content of a block, without its trailer.
inline std::string sstable_block(const SstableEntries& entries, std::size_t restart_interval = 16) {
  std::string block, restarts, before;
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[i];
    std::size_t shared = 0;
    if (i % restart_interval == 0) {
      restarts += sstable_fixed32(static_cast<std::uint32_t>(block.size()));
      ++count;
    } else {
      shared = static_cast<std::size_t>(std::ranges::mismatch(before, key).in1 - before.begin());
    }
    block += sstable_varint(shared) + sstable_varint(key.size() - shared) +
             sstable_varint(value.size()) + key.substr(shared) + value;
    before = key;
  }
  if (entries.empty()) restarts = sstable_fixed32(count++);
  return block + restarts + sstable_fixed32(count);
}

/// A block with its trailer.
inline std::string sealed_sstable_block(const std::string& block, char compression = '\0') {
  const std::string summed = block + compression;
  return summed + sstable_fixed32(mask_crc32c(crc32c(as_bytes(summed))));
}

inline std::string sstable_handle(std::uint64_t offset, std::uint64_t bytes) {
  return sstable_varint(offset) + sstable_varint(bytes);
}

/// From the handles of the metaindex block and of the index block.
inline std::string sstable_footer(const std::string& handles) {
  return handles + std::string(40 - handles.size(), '\0') + "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
}

/// A table of data blocks without trailers.
inline std::string sstable_of(const std::vector<std::string>& blocks, char compression = '\0') {
  std::string table;
  SstableEntries index;
  for (const std::string& each : blocks) {
    const std::string key = sstable_fixed32(static_cast<std::uint32_t>(index.size()));
    index.emplace_back(std::string(key.rbegin(), key.rend()),
                       sstable_handle(table.size(), each.size()));
    table += sealed_sstable_block(each, compression);
  }
  const std::string meta = sstable_block({});
  std::string handles = sstable_handle(table.size(), meta.size());
  table += sealed_sstable_block(meta);
  const std::string index_block = sstable_block(index, 1);
  handles += sstable_handle(table.size(), index_block.size());
  return table + sealed_sstable_block(index_block) + sstable_footer(handles);
}

/// A table of entries, which must be in the order of their keys.
inline std::string sstable(const SstableEntries& entries, std::size_t entries_per_block = 1000) {
  std::vector<std::string> blocks;
  for (std::size_t i = 0; i < entries.size(); i += entries_per_block) {
    const std::size_t end = std::min(entries.size(), i + entries_per_block);
    blocks.push_back(sstable_block({entries.begin() + static_cast<std::ptrdiff_t>(i),
                                    entries.begin() + static_cast<std::ptrdiff_t>(end)}));
  }
  return sstable_of(blocks);
}

}  // namespace brigade::io
