#include "brigade/data/formats/records.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/data/sources/files.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/record_reader.h"
#include "brigade/io/record_writer.h"

namespace brigade::data {
namespace {

using internal::FileCursor;

constexpr const char* kRecordSource = "records";

class RecordsIterator final : public IteratorBase<std::string> {
 public:
  RecordsIterator(const io::Path& path, const RecordsOptions& options)
      : path_(path),
        file_{{*options.file_system,
               path,
               {.max_record_bytes = options.max_record_bytes,
                .compression = options.compression,
                .buffer_bytes = options.buffer_bytes}}} {}

  std::optional<std::string> next() override {
    if (file_.is_at_end) return std::nullopt;
    try {
      if (auto record = file_.reader.next()) return record;
    } catch (const Error&) {
      pass_broken();
      throw;
    }
    file_.is_at_end = true;
    if (file_.reader.is_cut_short()) fail_cut_short();
    return std::nullopt;
  }
  std::uint64_t skip(std::uint64_t count) override {
    std::uint64_t passed = 0;
    while (passed < count && !file_.is_at_end) {
      if (pass_broken()) ++passed;
    }
    return passed;
  }
  io::StateTree save() const override { return file_.save(kRecordSource); }
  void restore(const io::StateTree& state) override { file_.restore(state, kRecordSource); }

 private:
  /// Skips a record without checking it; goes to the end if the next one cannot be found. Returns
  /// whether there was one.
  bool pass_broken() {
    try {
      file_.is_at_end = !file_.reader.skip();
      return !file_.is_at_end || file_.reader.is_cut_short();
    } catch (const Error&) {
      file_.is_at_end = true;
      return true;
    }
  }
  [[noreturn]] void fail_cut_short() const {
    throw Error(ErrorCode::kDataLoss, path_, ": the record at byte ", file_.reader.offset(),
                " is truncated by the end of the file: was its writer stopped?");
  }

  io::Path path_;
  FileCursor<io::RecordReader> file_;
};

}  // namespace

Dataset<std::string> records(std::vector<io::Path> paths, const RecordsOptions& options) {
  internal::check_buffer(options.buffer_bytes, kRecordSource);
  RecordsOptions own = options;
  own.file_system = internal::file_system_or_default(options.file_system);
  return internal::make_file_source<std::string>(
      std::move(paths), kRecordSource,
      [own](const io::Path& path) { return std::make_unique<RecordsIterator>(path, own); });
}

std::uint64_t write_records(const Dataset<std::string>& dataset, const io::Path& path,
                            const WriteRecordsOptions& options) {
  const auto files = options.file_system != nullptr ? options.file_system : io::posix_file_system();
  std::uint64_t count = 0;
  io::atomic_write(*files, path, [&](std::unique_ptr<io::WritableFile> file) {
    io::RecordWriter writer(io::compressed(std::move(file), options.compression));
    for (const std::string& record : dataset) {
      writer.write(io::as_bytes(record));
      ++count;
    }
    writer.close();
  });
  return count;
}

}  // namespace brigade::data
