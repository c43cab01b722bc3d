#include "brigade/cluster/cluster_json.h"

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  brigade::fuzz::accepts(
      [&] { brigade::cluster::parse_cluster_json(brigade::fuzz::text_of(data, size), "fuzz"); });
  return 0;
}
