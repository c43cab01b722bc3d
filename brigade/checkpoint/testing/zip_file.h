#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace brigade::checkpoint::testing {

/// A zip file, written entry by entry: valid, or as malicious as the test needs.
class ZipFile {
 public:
  /// Adds an entry with the data `data`. Returns the offset of its header.
  std::uint32_t add(std::string_view name, std::string_view data) {
    const auto begin = static_cast<std::uint32_t>(bytes_.size());
    bytes_ += local_header(name, data);
    bytes_ += data;
    list(name, data, begin);
    return begin;
  }
  /// Lists an entry at `begin`, even inside other data.
  void list(std::string_view name, std::string_view data, std::uint32_t begin) {
    directory_ += "PK\1\2" + text<std::uint32_t>(20) + common(name, data) + text<std::uint16_t>(0) +
                  text<std::uint16_t>(0) + text<std::uint16_t>(0) + text<std::uint32_t>(0) +
                  text(begin);
    directory_ += name;
    ++entries_;
  }
  static std::string local_header(std::string_view name, std::string_view data) {
    return "PK\3\4" + text<std::uint16_t>(20) + common(name, data) + std::string(name);
  }
  std::string bytes() const {
    const auto begin = static_cast<std::uint32_t>(bytes_.size());
    return bytes_ + directory_ + "PK\5\6" + text<std::uint32_t>(0) + text(entries_) +
           text(entries_) + text(static_cast<std::uint32_t>(directory_.size())) + text(begin) +
           text<std::uint16_t>(0);
  }

 private:
  template <class Number>
  static std::string text(Number number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof number);
  }
  // From the flags to the length of the extra field.
  static std::string common(std::string_view name, std::string_view data) {
    const auto sum = static_cast<std::uint32_t>(
        ::crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
    const auto size = static_cast<std::uint32_t>(data.size());
    return text<std::uint16_t>(0) + text<std::uint16_t>(0) + text<std::uint32_t>(0) + text(sum) +
           text(size) + text(size) + text(static_cast<std::uint16_t>(name.size())) +
           text<std::uint16_t>(0);
  }

  std::string bytes_;
  std::string directory_;
  std::uint16_t entries_ = 0;
};

}  // namespace brigade::checkpoint::testing
