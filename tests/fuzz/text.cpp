#include "brigade/data/sources/text_lines.h"
#include "brigade/io/testing/memory_file_system.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto file = files->create("/lines", io::CreateMode::kTruncate);
  file->write(io::as_bytes(fuzz::text_of(data, size)));
  file->close();
  auto lines =
      data::text_lines({"/lines"}, {.file_system = files}).iterator();  // compressed or not
  std::size_t bytes = 0;
  for (bool has_ended = false; !has_ended && bytes < (1 << 20);) {
    fuzz::accepts([&] {
      const auto line = lines.next();
      has_ended = !line.has_value();
      bytes += line ? line->size() + 1 : 0;
      fuzz::require(!line || line->find('\n') == std::string::npos);
    });
  }
  return 0;
}
