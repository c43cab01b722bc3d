#include <cstddef>
#include <span>
#include <vector>

#include "brigade/io/compression.h"
#include "brigade/io/testing/memory_file_system.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  constexpr std::size_t kMost = 1 << 20;
  io::MemoryFileSystem files;
  files.create("/fuzz.gz", io::CreateMode::kTruncate)
      ->write(io::as_bytes(fuzz::text_of(data, size)));
  fuzz::accepts([&] {
    const auto file = io::decompressed(files.open("/fuzz.gz"), "/fuzz.gz", io::Compression::kGzip);
    std::vector<std::byte> piece(1 << 16);
    std::size_t content = 0, got = 0;
    do {
      got = file->read(piece);
      fuzz::require(got <= piece.size());
      content += got;
    } while (got > 0 && content <= kMost);
  });
  return 0;
}
