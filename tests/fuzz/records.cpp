#include "brigade/io/record_reader.h"
#include "brigade/io/testing/memory_file_system.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  brigade::io::MemoryFileSystem files;
  const auto file = files.create("/records", brigade::io::CreateMode::kTruncate);
  file->write(brigade::io::as_bytes(brigade::fuzz::text_of(data, size)));
  file->close();
  brigade::fuzz::accepts([&] {
    brigade::io::RecordReader reader(files, "/records");
    std::uint64_t bytes = 0;
    while (const auto record = reader.next()) bytes += record->size();
    brigade::fuzz::require(bytes <= size && reader.offset() <= size);
  });
  return 0;
}
