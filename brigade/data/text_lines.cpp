#include "brigade/data/text_lines.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/data/file_source.h"
#include "brigade/io/byte_reader.h"

namespace brigade::data {
namespace {

using internal::FilePlace;

constexpr const char* kSource = "text_lines";

class LinesIterator final : public IteratorBase<std::string> {
 public:
  LinesIterator(const io::Path& path, const TextLinesOptions& options)
      : max_line_bytes_(options.max_line_bytes),
        bytes_(*options.file_system, path,
               {.compression = options.compression, .buffer_bytes = options.buffer_bytes}) {}

  std::optional<std::string> next() override {
    if (is_at_end_) return std::nullopt;
    try {
      if (const auto line = bytes_.line(max_line_bytes_)) return std::string(*line);
    } catch (...) {
      pass_line();
      throw;
    }
    is_at_end_ = true;
    return std::nullopt;
  }
  std::uint64_t skip(std::uint64_t count) override {
    std::uint64_t passed = 0;
    while (passed < count && !is_at_end_) {
      try {
        is_at_end_ = !bytes_.skip_line();
        if (!is_at_end_) ++passed;
      } catch (const Error&) {
        is_at_end_ = true;
        ++passed;
      }
    }
    return passed;
  }
  io::StateTree save() const override {
    return internal::save_place(kSource, {.offset = bytes_.offset(), .is_at_end = is_at_end_});
  }
  void restore(const io::StateTree& state) override {
    const FilePlace place = internal::saved_place(state, kSource);
    bytes_.seek(place.offset);
    is_at_end_ = place.is_at_end;
  }

 private:
  /// A line that cannot be read is one element; a file that cannot be read on ends with it.
  void pass_line() {
    try {
      is_at_end_ = !bytes_.skip_line();
    } catch (const Error&) {
      is_at_end_ = true;
    }
  }

  std::size_t max_line_bytes_;
  io::ByteReader bytes_;
  bool is_at_end_ = false;
};

}  // namespace

Dataset<std::string> text_lines(std::vector<io::Path> paths, const TextLinesOptions& options) {
  internal::check_buffer(options.buffer_bytes, kSource);
  TextLinesOptions own = options;
  own.file_system = internal::file_system_or_default(options.file_system);
  return internal::make_file_source<std::string>(
      std::move(paths), kSource,
      [own](const io::Path& path) { return std::make_unique<LinesIterator>(path, own); });
}

}  // namespace brigade::data
