#include "brigade/io/tensor_bundle.h"

#include <map>

#include "brigade/base/printable.h"
#include "brigade/io/testing/sstable_file.h"
#include "tests/fuzz/target.h"

namespace brigade {
namespace {

constexpr std::uint64_t kShardBytes = 1000;

void read_index(std::string_view table) {
  const io::TensorBundleIndex index = io::parse_tensor_bundle_index(table, "fuzz");
  std::size_t name_bytes = 0;
  for (const io::TensorBundleEntry& each : index.tensors) name_bytes += each.name.size();
  fuzz::require(name_bytes <= 16 * table.size());
  io::check_tensor_bundle_shards(index, "fuzz", [](int) { return kShardBytes; });
  std::map<int, std::uint64_t> used;  // what reading all tensors takes, by data file
  for (const io::TensorBundleEntry& each : index.tensors) {
    fuzz::require(base::is_utf8(each.name));
    std::uint64_t bytes = 0;
    std::int64_t end = 0;
    for (const io::TensorBundlePart& part : each.parts) {
      fuzz::require(part.shard >= 0 && part.shard < index.num_shards);
      fuzz::require(part.offset <= kShardBytes && part.bytes <= kShardBytes - part.offset);
      fuzz::require(part.start == end && part.length >= 0);
      end += part.length;
      bytes += part.bytes;
      used[part.shard] += part.bytes;
    }
    if (each.dtype) fuzz::require(bytes == io::tensor_bytes(each.shape, each.dtype->bytes));
  }
  for (const auto& [shard, bytes] : used) fuzz::require(bytes <= kShardBytes);
}

/// A valid table of pieces of the bytes: key and value, each after a byte with its length.
std::string table_of(std::string_view bytes) {
  const auto take = [&bytes] {
    const std::size_t size =
        std::min<std::size_t>(static_cast<unsigned char>(bytes.front()), bytes.size() - 1);
    const std::string piece(bytes.substr(1, size));
    bytes.remove_prefix(1 + size);
    return piece;
  };
  std::map<std::string, std::string> entries;
  while (!bytes.empty()) {
    const std::string key = take();
    entries.emplace(key, bytes.empty() ? "" : take());
  }
  return io::sstable({entries.begin(), entries.end()}, 5);
}

}  // namespace
}  // namespace brigade

// The first byte chooses what the others are: a file, or what checksums would keep the engine from
// changing: the content of a block, or the entries of an index.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  if (size == 0) return 0;
  const auto bytes = fuzz::text_of(data + 1, size - 1);
  fuzz::accepts([&] {
    switch (data[0] % 3) {
      case 0:
        return read_index(bytes);
      case 1:
        return read_index(io::sstable_of({std::string(bytes)}));
      default:
        return read_index(table_of(bytes));
    }
  });
  return 0;
}
