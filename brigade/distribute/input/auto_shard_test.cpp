#include "brigade/distribute/input/auto_shard.h"

#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "brigade/base/log.h"
#include "brigade/data/sources/text_lines.h"
#include "brigade/data/testing/file_folder.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/distribute/testing/worker_threads.h"

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;

AutoShardPolicy chosen(AutoShardPolicy asked, const data::ShardingInfo& sharding, int workers) {
  return choose_auto_shard(asked, sharding, workers).policy;
}

std::string notice(AutoShardPolicy asked, const data::ShardingInfo& sharding, int workers) {
  return choose_auto_shard(asked, sharding, workers).notice;
}

TEST(AutoShard, IsByFileIfEveryWorkerGetsAFile) {
  EXPECT_EQ(chosen(AutoShardPolicy::kAuto, {.files = 3}, 3), AutoShardPolicy::kFile);
  EXPECT_EQ(chosen(AutoShardPolicy::kAuto, {.files = 2}, 3), AutoShardPolicy::kData);
  EXPECT_EQ(chosen(AutoShardPolicy::kAuto, {}, 2), AutoShardPolicy::kData);
  EXPECT_EQ(notice(AutoShardPolicy::kAuto, {.files = 3}, 3), "");
  EXPECT_EQ(notice(AutoShardPolicy::kAuto, {}, 2), "") << "there are no files to mention";
}

TEST(AutoShard, WarnsThatADatasetOfFilesIsShardedByData) {
  EXPECT_TRUE(notice(AutoShardPolicy::kAuto, {.files = 1}, 2)
                  .starts_with("The dataset has 1 file and the job 2 workers: it is sharded by "
                               "data"));
  const data::ShardingInfo counted{.files = 8, .counting_step = "take(5)"};
  EXPECT_EQ(chosen(AutoShardPolicy::kAuto, counted, 2), AutoShardPolicy::kData);
  EXPECT_NE(notice(AutoShardPolicy::kAuto, counted, 2).find("take(5)"), std::string::npos);
  EXPECT_EQ(chosen(AutoShardPolicy::kFile, counted, 2), AutoShardPolicy::kFile);
  EXPECT_NE(notice(AutoShardPolicy::kFile, counted, 2).find("take(5)"), std::string::npos);
}

// TensorFlow: InvalidArgumentError "Could not apply FILE based sharding: the dataset only has N
// file(s)", under AUTO too.
TEST(AutoShard, ByFileNeedsAFilePerWorker) {
  const Error error = error_from([] { chosen(AutoShardPolicy::kFile, {.files = 2}, 3); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "2 files for 3 workers")) << error.what();
  EXPECT_TRUE(mentions(error_from([] { chosen(AutoShardPolicy::kFile, {}, 3); }), "none"));
}

TEST(AutoShard, ByHintNeedsAHint) {
  EXPECT_EQ(chosen(AutoShardPolicy::kHint, {.has_hint = true}, 2), AutoShardPolicy::kHint);
  EXPECT_TRUE(mentions(error_from([] { chosen(AutoShardPolicy::kHint, {}, 2); }), "shard_hint()"));
}

TEST(AutoShard, OneWorkerReadsAll) {
  for (const auto asked : {AutoShardPolicy::kAuto, AutoShardPolicy::kFile, AutoShardPolicy::kData,
                           AutoShardPolicy::kHint, AutoShardPolicy::kOff})
    EXPECT_EQ(chosen(asked, {}, 1), AutoShardPolicy::kData);
}

TEST(AutoShard, OneWorkerLogsTheChoiceOfAll) {
  std::vector<std::string> lines;
  base::set_log_sink([&](base::LogLevel, std::string_view line) { lines.emplace_back(line); });
  for (const int worker : {0, 1})
    auto_shard_for({.num_workers = 2, .worker = worker}, AutoShardPolicy::kAuto, {.files = 1});
  base::set_log_sink({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("1 file "), std::string::npos) << lines[0];
}

TEST(AutoShard, AWorkersPartIsItsNumber) {
  const WorkerLayout layout{.num_workers = 3, .worker = 2};
  EXPECT_EQ(shard_of(layout, AutoShardPolicy::kFile),
            (data::Shard{.by = data::ShardBy::kFiles, .count = 3, .index = 2}));
  EXPECT_EQ(shard_of(layout, AutoShardPolicy::kHint),
            (data::Shard{.by = data::ShardBy::kHint, .count = 3, .index = 2}));
  EXPECT_EQ(shard_of(layout, AutoShardPolicy::kData), data::Shard());
  EXPECT_EQ(shard_of(layout, AutoShardPolicy::kOff), data::Shard());
}

/// The numbers that all workers' replicas train on in an epoch, sorted.
std::vector<std::int64_t> trained_on(const data::Dataset<at::Tensor>& batches,
                                     AutoShardPolicy policy) {
  std::mutex mutex;
  std::vector<std::int64_t> numbers;
  run_workers({1, 2}, [&](MultiWorkerMirroredStrategy& strategy) {
    for (const auto& batch : strategy.distribute(batches, {.auto_shard = policy})) {
      for (const at::Tensor& own : batch.values()) {
        const std::lock_guard lock(mutex);
        for (std::int64_t i = 0; i < own.numel(); ++i)
          numbers.push_back(own[i].item<std::int64_t>());
      }
    }
  });
  std::ranges::sort(numbers);
  return numbers;
}

TEST(AutoShard, LinesOfFilesAreReadOnceUnlessThePolicyIsOff) {
  data::testing::Folder folder;
  const auto batches_of = [&](const std::vector<io::Path>& files) {
    return data::text_lines(files, {.file_system = folder.files()})
        .map([](const std::string& line) { return at::scalar_tensor(std::stol(line), at::kLong); })
        .batch(2);
  };
  const std::vector<std::int64_t> all{1, 2, 3, 4, 5, 6, 7};
  const auto one = batches_of({folder.write("all", "1\n2\n3\n4\n5\n6\n7\n")});
  const auto three = batches_of(
      {folder.write("a", "1\n2\n3\n4\n5"), folder.write("b", "6"), folder.write("c", "7\n")});
  for (const auto& batches : {one, three}) {
    EXPECT_EQ(trained_on(batches, AutoShardPolicy::kAuto), all);
    EXPECT_EQ(trained_on(batches, AutoShardPolicy::kData), all);
    EXPECT_EQ(trained_on(batches, AutoShardPolicy::kOff).size(), 2 * all.size());
  }
  EXPECT_EQ(trained_on(three, AutoShardPolicy::kFile), all);
  const std::vector<std::int64_t> six(all.begin(), all.begin() + 6);
  EXPECT_EQ(trained_on(three.take(3), AutoShardPolicy::kAuto), six) << "sharded by data";
  EXPECT_TRUE(mentions(error_from([&] { trained_on(one, AutoShardPolicy::kFile); }), "1 file"));
}

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
