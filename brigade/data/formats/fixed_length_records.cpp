#include "brigade/data/formats/fixed_length_records.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/sources/files.h"
#include "brigade/io/byte_reader.h"

namespace brigade::data {
namespace {

using base::str_cat;
using internal::FileCursor;

constexpr const char* kFixedLengthSource = "fixed_length_records";

void check_options(const FixedLengthRecordsOptions& options) {
  const auto check = [](std::int64_t bytes, std::int64_t least, std::string_view name) {
    check_argument(bytes >= least, kFixedLengthSource, ": ", name, " is ", bytes, "; it must be ",
                   least, " or more");
  };
  check(options.record_bytes, 1, "record_bytes");
  check(options.header_bytes, 0, "header_bytes");
  check(options.footer_bytes, 0, "footer_bytes");
  internal::check_buffer(options.buffer_bytes, kFixedLengthSource);
}

std::string text_of_lengths(const FixedLengthRecordsOptions& options) {
  return str_cat("a header of ", options.header_bytes, ", a footer of ", options.footer_bytes,
                 " and records of ", options.record_bytes, " bytes");
}

void check_size(const io::Path& path, const FixedLengthRecordsOptions& options) {
  const auto info = options.file_system->info(path);
  if (!info || options.compression != io::Compression::kNone) return;  // `open` reports the error
  const std::int64_t body =
      static_cast<std::int64_t>(info->size) - options.header_bytes - options.footer_bytes;
  if (body >= 0 && body % options.record_bytes == 0) return;
  refuse(path, ": has ", info->size, " bytes, which do not consist of ", text_of_lengths(options),
         ": is it another kind of file?");
}

class FixedLengthRecordsIterator final : public IteratorBase<std::string> {
 public:
  FixedLengthRecordsIterator(const io::Path& path, const FixedLengthRecordsOptions& options)
      : path_(path),
        options_(options),
        record_(static_cast<std::size_t>(options.record_bytes)),
        footer_(static_cast<std::size_t>(options.footer_bytes)),
        file_{{*options.file_system,
               path,
               {.compression = options.compression, .buffer_bytes = options.buffer_bytes}}} {
    check_size(path, options);
  }

  std::optional<std::string> next() override {
    if (!has_record()) return std::nullopt;
    std::string record(file_.reader.peek(record_).substr(0, record_));
    file_.reader.consume(record_);
    return record;
  }
  std::uint64_t skip(std::uint64_t count) override {
    std::uint64_t passed = 0;
    try {
      for (; passed < count && has_record(); ++passed) file_.reader.consume(record_);
    } catch (const Error&) {
      ++passed;
    }
    return passed;
  }
  io::StateTree save() const override { return file_.save(kFixedLengthSource); }
  void restore(const io::StateTree& state) override { file_.restore(state, kFixedLengthSource); }

 private:
  /// Whether a complete record follows. An error ends the file.
  bool has_record() {
    if (file_.is_at_end) return false;
    file_.is_at_end = true;
    if (file_.reader.offset() == 0 && options_.header_bytes > 0) {
      if (!file_.reader.skip(static_cast<std::uint64_t>(options_.header_bytes))) fail_length();
    }
    const std::size_t left = file_.reader.peek(record_ + footer_).size();
    if (left < record_ + footer_) {
      if (left != footer_) fail_length();
      return false;
    }
    file_.is_at_end = false;
    return true;
  }
  [[noreturn]] void fail_length() {
    throw Error(ErrorCode::kDataLoss, path_, ": its content does not consist of ",
                text_of_lengths(options_), ": it ends within one of them, after byte ",
                file_.reader.offset());
  }

  io::Path path_;
  FixedLengthRecordsOptions options_;
  std::size_t record_;
  std::size_t footer_;
  FileCursor<io::ByteReader> file_;
};

}  // namespace

Dataset<std::string> fixed_length_records(std::vector<io::Path> paths,
                                          const FixedLengthRecordsOptions& options) {
  check_options(options);
  FixedLengthRecordsOptions own = options;
  own.file_system = internal::file_system_or_default(options.file_system);
  const std::string source = str_cat(kFixedLengthSource, "[", own.record_bytes, " bytes, header ",
                                     own.header_bytes, ", footer ", own.footer_bytes, "]");
  return internal::make_file_source<std::string>(
      std::move(paths), source, [own](const io::Path& path) {
        return std::make_unique<FixedLengthRecordsIterator>(path, own);
      });
}

}  // namespace brigade::data
