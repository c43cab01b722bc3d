#include "brigade/checkpoint/zip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"

namespace brigade::checkpoint {
namespace {

constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kLongestComment = 0xffff;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kLocalBytes = 30;
constexpr std::uint64_t kIn64 = 0xffffffff;  // the number is in the zip64 part

struct Directory {
  std::uint64_t begin = 0, bytes = 0, entries = 0;
};

struct CentralEntry {
  std::string_view name;
  std::uint32_t crc32 = 0;
  std::uint64_t stored = 0, size = 0, local = 0;
  std::uint16_t method = 0, flags = 0;
};

/// Little-endian numbers out of the archive, bounds checked.
class ZipParser {
 public:
  ZipParser(std::string_view archive, std::string_view file) : archive_(archive), file_(file) {}

  std::map<std::string, ZipReader::Entry, std::less<>> entries() const {
    std::map<std::string, ZipReader::Entry, std::less<>> result;
    const Directory directory = find_directory();
    std::vector<std::pair<std::uint64_t, std::uint64_t>> used;  // from header to end of data
    std::uint64_t position = directory.begin;
    const std::uint64_t end = directory.begin + directory.bytes;
    for (std::uint64_t i = 0; i < directory.entries; ++i) {
      const CentralEntry central = central_entry(position, end);
      const ZipReader::Entry entry{.bytes = data_of(central),
                                   .crc32 = central.crc32,
                                   .compression = compression_of(central)};
      if (!result.emplace(std::string(central.name), entry).second) {
        fail("the entry ", base::quoted(central.name), " occurs twice");
      }
      used.emplace_back(
          central.local,
          static_cast<std::uint64_t>(entry.bytes.data() - archive_.data()) + entry.bytes.size());
    }
    check_disjoint(std::move(used));
    return result;
  }

 private:
  template <class... T>
  [[noreturn]] void fail(const T&... pieces) const {
    throw Error(ErrorCode::kDataLoss, file_, ": not a valid zip file: ", pieces...);
  }

  // Overlapping entries would let a small file have a huge content.
  void check_disjoint(std::vector<std::pair<std::uint64_t, std::uint64_t>> used) const {
    std::sort(used.begin(), used.end());
    for (std::size_t i = 1; i < used.size(); ++i) {
      if (used[i].first < used[i - 1].second) fail("two of its entries overlap");
    }
  }

  std::string_view piece(std::uint64_t begin, std::uint64_t bytes) const {
    if (begin > archive_.size() || bytes > archive_.size() - begin) {
      fail("it ends within what it announces (was it cut short?)");
    }
    return archive_.substr(begin, bytes);
  }
  template <class Number>
  Number number(std::uint64_t at) const {
    Number value;
    std::memcpy(&value, piece(at, sizeof value).data(), sizeof value);
    return value;
  }
  bool has_mark(std::uint64_t at, std::string_view mark) const { return piece(at, 4) == mark; }

  Directory find_directory() const {
    if (archive_.size() < kEndBytes) fail("it is too short");
    const std::size_t last = archive_.size() - kEndBytes;
    const std::size_t first = last - std::min(last, kLongestComment);
    for (std::size_t at = last + 1; at-- > first;) {
      // The mark may occur in a comment: the comment's length must fit as well.
      if (has_mark(at, "PK\5\6") &&
          at + kEndBytes + number<std::uint16_t>(at + 20) == archive_.size()) {
        return directory_at(at);
      }
    }
    fail("it has no end record (was it cut short?)");
  }

  Directory directory_at(std::uint64_t at) const {
    Directory directory{.begin = number<std::uint32_t>(at + 16),
                        .bytes = number<std::uint32_t>(at + 12),
                        .entries = number<std::uint16_t>(at + 10)};
    if (at >= kLocator64Bytes && has_mark(at - kLocator64Bytes, "PK\6\7")) {
      const auto end64 = number<std::uint64_t>(at - kLocator64Bytes + 8);
      piece(end64, kEnd64Bytes);
      if (!has_mark(end64, "PK\6\6")) fail("its zip64 end record is not where it should be");
      directory = {.begin = number<std::uint64_t>(end64 + 48),
                   .bytes = number<std::uint64_t>(end64 + 40),
                   .entries = number<std::uint64_t>(end64 + 32)};
    }
    piece(directory.begin, directory.bytes);
    if (directory.entries > directory.bytes / kCentralBytes) {
      fail("it announces ", directory.entries, " entries in ", directory.bytes, " bytes");
    }
    return directory;
  }

  CentralEntry central_entry(std::uint64_t& position, std::uint64_t end) const {
    const std::uint64_t at = position;
    if (end - at < kCentralBytes || !has_mark(at, "PK\1\2")) fail("its directory is broken");
    const std::uint64_t name_bytes = number<std::uint16_t>(at + 28);
    const std::uint64_t extra_bytes = number<std::uint16_t>(at + 30);
    const std::uint64_t comment_bytes = number<std::uint16_t>(at + 32);
    if (end - at - kCentralBytes < name_bytes + extra_bytes + comment_bytes) {
      fail("its directory is broken");
    }
    CentralEntry entry{.name = piece(at + kCentralBytes, name_bytes),
                       .crc32 = number<std::uint32_t>(at + 16),
                       .stored = number<std::uint32_t>(at + 20),
                       .size = number<std::uint32_t>(at + 24),
                       .local = number<std::uint32_t>(at + 42),
                       .method = number<std::uint16_t>(at + 10),
                       .flags = number<std::uint16_t>(at + 8)};
    read_extra(piece(at + kCentralBytes + name_bytes, extra_bytes), entry);
    position += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
    return entry;
  }

  // The zip64 part holds, in this order, those numbers that did not fit.
  void read_extra(std::string_view extra, CentralEntry& entry) const {
    const auto base = static_cast<std::uint64_t>(extra.data() - archive_.data());
    for (std::uint64_t at = 0; at + 4 <= extra.size();) {
      const auto id = number<std::uint16_t>(base + at);
      const std::uint64_t bytes = number<std::uint16_t>(base + at + 2);
      at += 4;
      if (bytes > extra.size() - at)
        fail("entry ", base::quoted(entry.name), ": its extra field is broken");
      std::uint64_t used = 0;
      const auto take = [&](std::uint64_t& value) {
        if (id != 1 || value != kIn64) return;
        if (bytes - used < 8)
          fail("entry ", base::quoted(entry.name), ": its zip64 field is too short");
        value = number<std::uint64_t>(base + at + used);
        used += 8;
      };
      take(entry.size);
      take(entry.stored);
      take(entry.local);
      at += bytes;
    }
  }

  static std::string_view compression_of(const CentralEntry& entry) {
    if ((entry.flags & 1) != 0) return "encrypted";
    return entry.method == 0 ? "" : "compressed";
  }

  std::string_view data_of(const CentralEntry& entry) const {
    if (compression_of(entry).empty() && entry.stored != entry.size)
      fail("entry ", base::quoted(entry.name), " has two sizes");
    piece(entry.local, kLocalBytes);
    if (!has_mark(entry.local, "PK\3\4"))
      fail("entry ", base::quoted(entry.name), " is not where it should be");
    const std::uint64_t name_bytes = number<std::uint16_t>(entry.local + 26);
    const std::uint64_t extra_bytes = number<std::uint16_t>(entry.local + 28);
    if (piece(entry.local + kLocalBytes, name_bytes) != entry.name) {
      fail("entry ", base::quoted(entry.name), " has another name in its header");
    }
    return piece(entry.local + kLocalBytes + name_bytes + extra_bytes, entry.stored);
  }

  std::string_view archive_;
  std::string_view file_;
};

std::uint32_t crc32_of(std::string_view bytes) {
  uLong sum = ::crc32(0, nullptr, 0);
  while (!bytes.empty()) {
    const auto part = bytes.substr(0, std::numeric_limits<uInt>::max());
    sum = ::crc32(sum, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
    bytes.remove_prefix(part.size());
  }
  return static_cast<std::uint32_t>(sum);
}

}  // namespace

ZipReader::ZipReader(std::string_view archive, std::string_view file)
    : file_(file), entries_(ZipParser(archive, file).entries()) {}

std::string_view ZipReader::read(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw Error(ErrorCode::kDataLoss, file_, ": it has no entry ", base::quoted(name));
  }
  if (!found->second.compression.empty()) {
    throw Error(ErrorCode::kUnimplemented, file_, ": the entry ", base::quoted(name), " is ",
                found->second.compression, "; PyTorch stores tensors plainly");
  }
  if (crc32_of(found->second.bytes) != found->second.crc32) {
    throw Error(ErrorCode::kDataLoss, file_, ": the bytes of its entry ", base::quoted(name),
                " are broken");
  }
  return found->second.bytes;
}

}  // namespace brigade::checkpoint
