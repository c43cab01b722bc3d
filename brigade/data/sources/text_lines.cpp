#include "brigade/data/sources/text_lines.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/data/sources/files.h"
#include "brigade/io/byte_reader.h"

namespace brigade::data {
namespace {

using internal::FileCursor;

constexpr const char* kTextSource = "text_lines";

class LinesIterator final : public IteratorBase<std::string> {
 public:
  LinesIterator(const io::Path& path, const TextLinesOptions& options)
      : max_line_bytes_(options.max_line_bytes),
        file_{{*options.file_system,
               path,
               {.compression = options.compression, .buffer_bytes = options.buffer_bytes}}} {}

  std::optional<std::string> next() override {
    if (file_.is_at_end) return std::nullopt;
    try {
      if (const auto line = file_.reader.line(max_line_bytes_)) return std::string(*line);
    } catch (...) {
      pass_line();
      throw;
    }
    file_.is_at_end = true;
    return std::nullopt;
  }
  std::uint64_t skip(std::uint64_t count) override {
    std::uint64_t passed = 0;
    while (passed < count && !file_.is_at_end) {
      if (pass_line()) ++passed;
    }
    return passed;
  }
  io::StateTree save() const override { return file_.save(kTextSource); }
  void restore(const io::StateTree& state) override { file_.restore(state, kTextSource); }

 private:
  /// Whether there was a line. One that cannot be read is one element; the file ends with it if
  /// reading cannot continue.
  bool pass_line() {
    try {
      file_.is_at_end = !file_.reader.skip_line();
      return !file_.is_at_end;
    } catch (const Error&) {
      file_.is_at_end = true;
      return true;
    }
  }

  std::size_t max_line_bytes_;
  FileCursor<io::ByteReader> file_;
};

}  // namespace

Dataset<std::string> text_lines(std::vector<io::Path> paths, const TextLinesOptions& options) {
  internal::check_buffer(options.buffer_bytes, kTextSource);
  TextLinesOptions own = options;
  own.file_system = internal::file_system_or_default(options.file_system);
  return internal::make_file_source<std::string>(
      std::move(paths), kTextSource,
      [own](const io::Path& path) { return std::make_unique<LinesIterator>(path, own); });
}

}  // namespace brigade::data
