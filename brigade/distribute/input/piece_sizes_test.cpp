#include "brigade/distribute/input/piece_sizes.h"

#include <gtest/gtest.h>

#include <numeric>

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;

// TensorFlow: batch_sizes_for_worker(7, 2, 2, worker).
TEST(PieceSizes, BeginsWithTheWorkersOwnReplica) {
  EXPECT_EQ(rebatch_sizes(7, 7, {.first = 0, .local = 2, .total = 4}), Numbers({2, 2, 2, 1}));
  EXPECT_EQ(rebatch_sizes(7, 7, {.first = 2, .local = 2, .total = 4}), Numbers({2, 1, 2, 2}));
}

TEST(PieceSizes, ASmallerBatchFillsTheFirstPieces) {
  EXPECT_EQ(rebatch_sizes(2, 4, {.first = 0, .local = 1, .total = 2}), Numbers({2, 0}));
  EXPECT_EQ(rebatch_sizes(3, 4, {.first = 1, .local = 1, .total = 2}), Numbers({2, 1}));
  EXPECT_EQ(rebatch_sizes(0, 4, {.first = 1, .local = 1, .total = 2}), Numbers({0, 0}));
}

TEST(PieceSizes, LosesNothingAndEachStepOfAllIsAFullBatch) {
  for (int workers = 1; workers <= 4; ++workers) {
    for (int local = 1; local <= 3; ++local) {
      for (std::int64_t full = 1; full <= 9; ++full) {
        const int total = workers * local;
        Numbers steps(static_cast<std::size_t>(workers),
                      0);  // examples per step from one full batch of each worker
        for (int worker = 0; worker < workers; ++worker) {
          const Numbers sizes =
              rebatch_sizes(full, full, {.first = worker * local, .local = local, .total = total});
          EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), full);
          for (std::size_t i = 0; i < sizes.size(); ++i)
            steps[i / static_cast<std::size_t>(local)] += sizes[i];
        }
        EXPECT_EQ(steps, Numbers(static_cast<std::size_t>(workers), full))
            << workers << " x " << local << ", " << full;
      }
    }
  }
}

}  // namespace
}  // namespace brigade::distribute
