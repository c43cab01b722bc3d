#include "brigade/distribute/auto_shard.h"

#include <gtest/gtest.h>

#include <vector>

#include "brigade/base/log.h"
#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

AutoShardPolicy chosen(AutoShardPolicy asked, const data::Sharing& sharing, int workers) {
  return choose_auto_shard(asked, sharing, workers).policy;
}

std::string notice(AutoShardPolicy asked, const data::Sharing& sharing, int workers) {
  return choose_auto_shard(asked, sharing, workers).notice;
}

TEST(AutoShard, IsByFileWhereEveryWorkerHasOne) {
  EXPECT_EQ(chosen(AutoShardPolicy::kAuto, {.files = 3}, 3), AutoShardPolicy::kFile);
  EXPECT_EQ(chosen(AutoShardPolicy::kAuto, {.files = 2}, 3), AutoShardPolicy::kData);
  EXPECT_EQ(chosen(AutoShardPolicy::kAuto, {}, 2), AutoShardPolicy::kData);
  EXPECT_EQ(notice(AutoShardPolicy::kAuto, {.files = 3}, 3), "");
  EXPECT_EQ(notice(AutoShardPolicy::kAuto, {}, 2), "") << "nobody expects files";
}

TEST(AutoShard, SaysThatItGoesByDataThoughThereAreFiles) {
  EXPECT_TRUE(notice(AutoShardPolicy::kAuto, {.files = 1}, 2)
                  .starts_with("The dataset has 1 file and the job 2 workers: it is shared out by "
                               "data"));
  const data::Sharing counted{.files = 8, .counted_by = "take(5)"};
  EXPECT_EQ(chosen(AutoShardPolicy::kAuto, counted, 2), AutoShardPolicy::kData);
  EXPECT_NE(notice(AutoShardPolicy::kAuto, counted, 2).find("take(5)"), std::string::npos);
  EXPECT_EQ(chosen(AutoShardPolicy::kFile, counted, 2), AutoShardPolicy::kFile);
  EXPECT_NE(notice(AutoShardPolicy::kFile, counted, 2).find("take(5)"), std::string::npos);
}

// TensorFlow: InvalidArgumentError "Could not apply FILE based sharding: the dataset only has N
// file(s)", under AUTO too.
TEST(AutoShard, ByFileNeedsAFileAWorker) {
  const Error error = error_from([] { chosen(AutoShardPolicy::kFile, {.files = 2}, 3); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(says(error, "2 files for 3 workers")) << error.what();
  EXPECT_TRUE(says(error_from([] { chosen(AutoShardPolicy::kFile, {}, 3); }), "none"));
}

TEST(AutoShard, ByHintNeedsAHint) {
  EXPECT_EQ(chosen(AutoShardPolicy::kHint, {.has_hint = true}, 2), AutoShardPolicy::kHint);
  EXPECT_TRUE(says(error_from([] { chosen(AutoShardPolicy::kHint, {}, 2); }), "shard_hint()"));
}

TEST(AutoShard, OneWorkerHasItAll) {
  for (const auto asked : {AutoShardPolicy::kAuto, AutoShardPolicy::kFile, AutoShardPolicy::kData,
                           AutoShardPolicy::kHint, AutoShardPolicy::kOff})
    EXPECT_EQ(chosen(asked, {}, 1), AutoShardPolicy::kData);
}

TEST(AutoShard, OneWorkerLogsWhatAllHaveChosen) {
  std::vector<std::string> lines;
  base::set_log_sink([&](base::LogLevel, std::string_view line) { lines.emplace_back(line); });
  for (const int worker : {0, 1})
    auto_shard_at({.num_workers = 2, .worker = worker}, AutoShardPolicy::kAuto, {.files = 1});
  base::set_log_sink({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("1 file "), std::string::npos) << lines[0];
}

TEST(AutoShard, AWorkersPartIsItsNumber) {
  const InputPlace place{.num_workers = 3, .worker = 2};
  EXPECT_EQ(shard_of(place, AutoShardPolicy::kFile),
            (data::Shard{.by = data::ShardBy::kFiles, .count = 3, .index = 2}));
  EXPECT_EQ(shard_of(place, AutoShardPolicy::kHint),
            (data::Shard{.by = data::ShardBy::kHint, .count = 3, .index = 2}));
  EXPECT_EQ(shard_of(place, AutoShardPolicy::kData), data::Shard());
  EXPECT_EQ(shard_of(place, AutoShardPolicy::kOff), data::Shard());
}

}  // namespace
}  // namespace brigade::distribute
