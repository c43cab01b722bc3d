#include "brigade/input/file_numbers.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::input::internal {
namespace {

using Numbers = std::vector<std::int64_t>;

FileListPtr list_of(std::vector<io::Path> paths) {
  return std::make_shared<const data::internal::FileList>(std::move(paths), "images");
}

Numbers epoch_numbers(const data::Dataset<std::int64_t>& dataset,
                      const data::IteratorOptions& options) {
  Numbers numbers;
  auto iterator = dataset.iterator(options);
  while (auto number = iterator.next()) numbers.push_back(*number);
  return numbers;
}

TEST(FileNumbers, KeepTheContractOfSources) {
  const auto files = list_of({"a", "b", "c", "d", "e"});
  data::testing::expect_contract(file_numbers(files), Numbers{0, 1, 2, 3, 4});
  EXPECT_EQ(file_numbers(files).cardinality(), 5);
  EXPECT_EQ(file_numbers(files).describe(), "images(a and 4 more)");
}

TEST(FileNumbers, AreShardedByFiles) {
  const auto dataset = file_numbers(list_of({"a", "b", "c", "d", "e"}));
  EXPECT_EQ(dataset.sharding().files, 5);
  EXPECT_EQ(epoch_numbers(dataset, {.shard = {.count = 2, .index = 0}}), (Numbers{0, 2, 4}));
  EXPECT_EQ(epoch_numbers(dataset, {.shard = {.count = 2, .index = 1}}), (Numbers{1, 3}));
  EXPECT_EQ(epoch_numbers(dataset, {.shard = {.by = data::ShardBy::kHint, .count = 2, .index = 1}})
                .size(),
            5U);
  auto iterator = dataset.iterator({.shard = {.count = 2, .index = 0}});
  iterator.next();
  auto other = dataset.iterator({.shard = {.count = 2, .index = 0}});
  other.restore(iterator.save());
  EXPECT_EQ(other.next(), 2);
}

TEST(FileNumbers, RefuseThePositionOfOtherFiles) {
  auto iterator = file_numbers(list_of({"a", "b"})).iterator();
  EXPECT_THROW(file_numbers(list_of({"a", "c"})).iterator().restore(iterator.save()), Error);
}

}  // namespace
}  // namespace brigade::input::internal
