#include <gtest/gtest.h>

#include "brigade/data/files.h"
#include "brigade/data/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/io/state_json.h"

namespace brigade::data {
namespace {

using Numbers = std::vector<std::int64_t>;

/// Positions are counts, never elements, whatever lies in buffers.
TEST(StateSize, OfADeepPipelineStaysBelowAFewKilobytes) {
  std::vector<io::Path> paths;
  for (int file = 0; file < 1000; ++file) paths.push_back("data/" + std::to_string(file));
  const auto deep = from_files<std::int64_t>(paths, [](const io::Path&) { return range(100); })
                        .shuffle(10'000)
                        .map([](std::int64_t x) { return x; }, {.parallelism = 2})
                        .cache()
                        .shuffle(10'000)
                        .repeat(2)
                        .batch(128)
                        .map([](Numbers batch) { return batch; }, {.parallelism = 2})
                        .prefetch(8);
  auto iterator = deep.iterator({.seed = ~std::uint64_t{0}, .epoch = 1'000'000});
  for (int i = 0; i < 200; ++i) iterator.next();
  EXPECT_LT(io::stored_bytes(iterator.save()), 2048U);
}

}  // namespace
}  // namespace brigade::data
