#include "brigade/data/formats/csv.h"

#include "brigade/io/testing/memory_file_system.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto file = files->create("/rows.csv", io::CreateMode::kTruncate);
  file->write(io::as_bytes(fuzz::text_of(data, size)));
  file->close();
  fuzz::accepts([&] { data::parse_csv_line(fuzz::text_of(data, size)); });
  fuzz::accepts([&] { data::csv_header("/rows.csv", {.file_system = files}); });
  auto rows = data::csv<std::int64_t, float, std::string>(
                  {"/rows.csv"}, {.compression = io::Compression::kNone, .file_system = files})
                  .iterator();
  // Each call consumes a row, even if it is invalid.
  std::size_t calls = 0;
  for (bool has_ended = false; !has_ended; ++calls) {
    fuzz::require(calls <= size + 1);
    fuzz::accepts([&] { has_ended = !rows.next().has_value(); });
  }
  return 0;
}
