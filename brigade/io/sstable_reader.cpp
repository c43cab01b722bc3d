#include "brigade/io/sstable_reader.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/crc32c.h"
#include "brigade/io/file_system.h"
#include "brigade/io/record_framing.h"

namespace brigade::io {
namespace {

constexpr std::string_view kTableMagic =
    "\x57\xfb\x80\x8b\x24\x75\x47\xdb";     // as it is in the file
constexpr std::uint64_t kTrailerBytes = 5;  // after each block: its compression, and a checksum
constexpr std::uint64_t kRestartBytes = 4;
constexpr char kPlainBlock = 0;
constexpr char kSnappyBlock = 1;

/// Where a block is, without its trailer.
struct BlockHandle {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t end() const { return offset + bytes + kTrailerBytes; }
};

class TableParser {
 public:
  TableParser(std::string_view table, std::string_view file) : table_(table), file_(file) {}

  void for_each(const std::function<void(const SstableEntry&)>& visit) const {
    std::optional<std::string> key;
    for (const BlockHandle& block : data_blocks()) for_each_in(block, key, visit);
  }

 private:
  /// Reads one piece of the table, from its begin to its end.
  class Cursor {
   public:
    Cursor(const TableParser& parser, std::uint64_t begin, std::uint64_t end)
        : parser_(parser), at_(begin), end_(end) {}

    std::uint64_t at() const { return at_; }
    bool is_at_end() const { return at_ == end_; }
    std::string_view take(std::uint64_t bytes, std::string_view what) {
      if (bytes > end_ - at_) {
        parser_.fail(at_, what, " of ", bytes, " bytes where ", end_ - at_, " are left");
      }
      at_ += bytes;
      return parser_.table_.substr(at_ - bytes, bytes);
    }
    std::uint64_t varint() {
      std::uint64_t value = 0;
      for (int shift = 0; shift < 64; shift += 7) {
        const auto byte = static_cast<unsigned char>(take(1, "a number").front());
        if (shift == 63 && byte > 1) break;
        value |= std::uint64_t{byte & 0x7fU} << shift;
        if (byte < 0x80) return value;
      }
      parser_.fail(at_, "a number of more than 64 bits");
    }

   private:
    const TableParser& parser_;
    std::uint64_t at_;
    std::uint64_t end_;
  };

  template <class... T>
  [[noreturn]] void fail(std::uint64_t offset, const T&... pieces) const {
    throw Error(ErrorCode::kDataLoss, file_, ": not a valid table: ", pieces..., ", at byte ",
                offset);
  }

  std::uint32_t fixed32(std::uint64_t at) const {
    return static_cast<std::uint32_t>(
        record_framing::load_little_endian(as_bytes(table_.substr(at, 4))));
  }

  /// All data blocks, in the order of their keys. Nothing in the file is used twice.
  std::vector<BlockHandle> data_blocks() const {
    if (table_.size() < kSstableFooterBytes || !has_sstable_footer(table_)) {
      fail(table_.size(), "it does not end with a table's footer (was it cut short?)");
    }
    const std::uint64_t end = table_.size() - kSstableFooterBytes;
    Cursor footer(*this, end, table_.size() - kTableMagic.size());
    const BlockHandle meta = handle(footer, end);
    const BlockHandle index = handle(footer, end);
    std::vector<BlockHandle> blocks;
    std::optional<std::string> key;
    for_each_in(index, key, [&](const SstableEntry& entry) {
      Cursor value(*this, offset_of(entry.value), offset_of(entry.value) + entry.value.size());
      blocks.push_back(handle(value, end));
    });
    std::optional<std::string> meta_key;
    for_each_in(meta, meta_key, [](const SstableEntry&) {});  // only checked
    std::vector<BlockHandle> used = blocks;
    used.push_back(meta);
    used.push_back(index);
    check_disjoint(std::move(used));
    return blocks;
  }

  BlockHandle handle(Cursor& cursor, std::uint64_t end) const {
    const std::uint64_t at = cursor.at();
    const std::uint64_t offset = cursor.varint();
    const std::uint64_t bytes = cursor.varint();
    if (offset > end || bytes > end - offset || kTrailerBytes > end - offset - bytes) {
      fail(at, "a block of ", bytes, " bytes at ", offset, " reaches beyond the ", end,
           " bytes before the footer");
    }
    return {.offset = offset, .bytes = bytes};
  }

  // Overlapping blocks would let a small file have a huge content.
  void check_disjoint(std::vector<BlockHandle> used) const {
    std::ranges::sort(used, {}, &BlockHandle::offset);
    for (std::size_t i = 1; i < used.size(); ++i) {
      if (used[i].offset < used[i - 1].end()) fail(used[i].offset, "two blocks overlap");
    }
  }

  std::uint64_t offset_of(std::string_view piece) const {
    return static_cast<std::uint64_t>(piece.data() - table_.data());
  }

  void check_trailer(const BlockHandle& block) const {
    const std::uint64_t at = block.offset + block.bytes;
    const std::string_view summed = table_.substr(block.offset, block.bytes + 1);
    if (fixed32(at + 1) != mask_crc32c(crc32c(as_bytes(summed)))) {
      fail(block.offset, "a block of ", block.bytes, " bytes with a wrong checksum");
    }
    const char compression = table_[at];
    if (compression == kPlainBlock) return;
    throw Error(ErrorCode::kUnimplemented, file_, ": the block at byte ", block.offset,
                " is compressed (",
                compression == kSnappyBlock ? "snappy" : "in a way that is not known",
                "); TensorFlow writes the index of a checkpoint without compression: load and save "
                "it again there");
  }

  /// The offsets, from the block's begin, of the entries whose keys are complete; and where the
  /// entries end.
  struct Restarts {
    std::vector<std::uint64_t> offsets;
    std::uint64_t end = 0;
  };

  Restarts restarts_of(const BlockHandle& block) const {
    if (block.bytes < kRestartBytes) fail(block.offset, "a block of ", block.bytes, " bytes");
    const std::uint64_t last = block.bytes - kRestartBytes;
    const std::uint64_t count = fixed32(block.offset + last);
    if (count == 0 || count > last / kRestartBytes) {
      fail(block.offset + last, "a block of ", block.bytes, " bytes with ", count,
           " restart points");
    }
    Restarts restarts{.offsets = {}, .end = last - count * kRestartBytes};
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t at = block.offset + restarts.end + i * kRestartBytes;
      const std::uint64_t offset = fixed32(at);
      const bool is_ascending = i == 0 ? offset == 0 : offset > restarts.offsets.back();
      if (!is_ascending || offset > restarts.end) fail(at, "a restart point at ", offset);
      restarts.offsets.push_back(offset);
    }
    return restarts;
  }

  /// `key` is that of the entry before, and of the last one afterwards.
  void for_each_in(const BlockHandle& block, std::optional<std::string>& key,
                   const std::function<void(const SstableEntry&)>& visit) const {
    check_trailer(block);
    const Restarts restarts = restarts_of(block);
    auto restart = restarts.offsets.begin();
    Cursor cursor(*this, block.offset, block.offset + restarts.end);
    while (!cursor.is_at_end()) {
      const std::uint64_t at = cursor.at();
      const std::uint64_t shared = cursor.varint();
      const std::uint64_t key_bytes = cursor.varint();
      const std::uint64_t value_bytes = cursor.varint();
      const bool is_restart = restart != restarts.offsets.end() && *restart == at - block.offset;
      if (is_restart) ++restart;
      if (shared > (is_restart || !key ? 0 : key->size())) {
        fail(at, "a key that repeats ", shared, " bytes of the one before");
      }
      append_key(key, shared, cursor.take(key_bytes, "a key"), at);
      visit({.key = *key, .value = cursor.take(value_bytes, "a value"), .offset = at});
    }
    if (restart != restarts.offsets.end() && *restart != restarts.end) {
      fail(block.offset + *restart, "a restart point that is not at an entry");
    }
  }

  void append_key(std::optional<std::string>& key, std::uint64_t shared, std::string_view rest,
                  std::uint64_t at) const {
    if (!key) {
      key.emplace(rest);
      return;
    }
    // Both begin with the shared bytes.
    if (rest <= std::string_view(*key).substr(shared)) fail(at, "a key out of order");
    key->resize(shared);
    *key += rest;
  }

  std::string_view table_;
  std::string_view file_;
};

}  // namespace

bool has_sstable_footer(std::string_view last_bytes) {
  return last_bytes.size() >= kSstableFooterBytes && last_bytes.ends_with(kTableMagic);
}

void read_sstable(std::string_view table, std::string_view file,
                  const std::function<void(const SstableEntry&)>& visit) {
  TableParser(table, file).for_each(visit);
}

}  // namespace brigade::io
