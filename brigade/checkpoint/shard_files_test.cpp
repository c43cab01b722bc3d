#include <gtest/gtest.h>

#include "brigade/base/strings.h"
#include "brigade/checkpoint/shard_files.h"
#include "brigade/checkpoint/testing/sample.h"

namespace brigade::checkpoint {
namespace {

Snapshot snapshot_of(const Contents& contents) {
  return take_snapshot(1, contents, SnapshotMemory::kOwn);
}

Contents many(int tensors) {
  Contents contents = testing::sample(1);
  contents.tensors.clear();
  for (int i = 0; i < tensors; ++i) {
    contents.tensors.push_back({base::str_cat("t", i), at::full({100 + i}, i, at::kFloat)});
  }
  return contents;
}

TEST(ShardPlan, GoesRoundTheWritersWithAllButTheStatesArrays) {
  const auto shards = plan_shards(snapshot_of(many(7)), 4);
  ASSERT_EQ(shards.size(), 5u);
  EXPECT_EQ(assign_writers(shards, 3), (std::vector{0, 1, 2, 0, 0}));
  EXPECT_EQ(shards.back().section, Section::kState);
}

TEST(ShardPlan, AllHaveAFileOfEachSectionAtLeast) {
  EXPECT_EQ(shards_of({.directory = {}, .shards = 1}, 3), 3u);
  EXPECT_EQ(threads_of({.directory = {}, .shards = 1}, 3), 1u);
  EXPECT_EQ(shards_of({.directory = {}, .shards = 8}, 3), 8u);
  EXPECT_EQ(threads_of({.directory = {}, .shards = 8}, 3), 3u);
  EXPECT_EQ(threads_of({.directory = {}, .shards = 8}, 1), 8u);
}

TEST(ShardPlan, TheDigestDiffersForOtherTensorsNotForOtherValues) {
  const auto digest = [](const Contents& contents) {
    return digest_of(plan_shards(snapshot_of(contents), 2));
  };
  const Contents contents = many(4);
  Contents other_value = contents, other_shape = contents, other_name = contents,
           other_dtype = contents, other_state = contents;
  other_value.tensors[1].tensor = contents.tensors[1].tensor + 1;
  other_shape.tensors[1].tensor = contents.tensors[1].tensor.view({1, -1});
  other_name.tensors[1].name = "u";
  other_dtype.tensors[1].tensor = contents.tensors[1].tensor.view(at::kInt);
  other_state.state["more"] = io::StateTree(io::StateTree::Bytes(4, std::byte{1}));
  EXPECT_EQ(digest(other_value), digest(contents));
  EXPECT_EQ(digest(other_state), digest(contents));
  EXPECT_NE(digest(other_shape), digest(contents));
  EXPECT_NE(digest(other_name), digest(contents));
  EXPECT_NE(digest(other_dtype), digest(contents));
  EXPECT_NE(digest_of(plan_shards(snapshot_of(contents), 3)), digest(contents));
}

}  // namespace

}  // namespace brigade::checkpoint
