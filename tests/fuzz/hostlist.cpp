#include "brigade/cluster/slurm.h"

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = brigade::fuzz::text_of(data, size);
  brigade::fuzz::accepts(
      [&] { brigade::fuzz::require(brigade::cluster::expand_hostlist(text).size() <= 65'536); });
  brigade::fuzz::accepts([&] { brigade::cluster::expand_tasks_per_node(text); });
  return 0;
}
